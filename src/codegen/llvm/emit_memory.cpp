#include <llvm/IR/Intrinsics.h>

#include "codegen/llvm/emitter.h"

namespace kilter::codegen {

using llvm::Value;

namespace {

/// Returns the lane that a constant mask turns on if there is exactly one, otherwise -1.
int64_t only_lane(Value* mask) {
  const auto* constant = llvm::dyn_cast<llvm::Constant>(mask);
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(mask->getType());
  if (constant == nullptr || vector == nullptr) return -1;
  int64_t lane = -1;
  for (unsigned k = 0; k < vector->getNumElements(); ++k) {
    const llvm::Constant* on = constant->getAggregateElement(k);
    if (on == nullptr || on->isNullValue()) continue;
    if (lane >= 0) return -1;
    lane = k;
  }
  return lane;
}

}  // namespace

llvm::Instruction* Emitter::tagged(llvm::Instruction* access, int32_t buffer) {
  const auto b = static_cast<size_t>(buffer);
  access->setMetadata(llvm::LLVMContext::MD_alias_scope, scope_.at(b));
  if (others_.at(b) != nullptr) access->setMetadata(llvm::LLVMContext::MD_noalias, others_.at(b));
  return access;
}

Value* Emitter::from_memory(DType type, Value* v) {
  if (type != DType::boolean) return v;
  return builder_.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType()));
}

Value* Emitter::to_memory(DType type, Value* v) {
  if (type != DType::boolean) return v;
  return builder_.CreateZExt(v, same_lanes(builder_.getInt8Ty(), v));
}

Value* Emitter::element_address(int32_t buffer, Value* index) {
  const DType elem = func_.buffers.at(static_cast<size_t>(buffer)).type;
  return builder_.CreateGEP(memory_type(elem), buffers_.at(static_cast<size_t>(buffer)), index);
}

// A constant at the end of the index becomes a separate displacement, so that unrolled copies share the rest.
Value* Emitter::address(int32_t buffer, const Expr& index, bool in_bounds) {
  llvm::Type* elem = memory_type(func_.buffers.at(static_cast<size_t>(buffer)).type);
  Value* base = buffers_.at(static_cast<size_t>(buffer));
  int64_t offset = 0;
  if (is_const(index, &offset)) {
    return builder_.CreateGEP(elem, base, builder_.getInt64(static_cast<uint64_t>(offset)));
  }
  if (index->kind == ExprKind::binary && index->op == Op::add && is_const(index->args[1], &offset)) {
    Value* near = builder_.CreateGEP(elem, base, expr(index->args[0]));
    return builder_.CreateGEP(elem, near, builder_.getInt64(static_cast<uint64_t>(offset)));
  }
  Value* at = expr(index);
  return in_bounds ? builder_.CreateInBoundsGEP(elem, base, at) : builder_.CreateGEP(elem, base, at);
}

Value* Emitter::read(int32_t buffer, Value* address, int32_t lanes) {
  llvm::Type* elem = memory_type(func_.buffers.at(static_cast<size_t>(buffer)).type);
  llvm::Type* t = lanes == 1 ? elem : llvm::FixedVectorType::get(elem, static_cast<unsigned>(lanes));
  const llvm::Align align(elem->getScalarSizeInBits() / 8);
  return tagged(builder_.CreateAlignedLoad(t, address, align), buffer);
}

Value* Emitter::load(const ExprNode& e) {
  if (e.args.size() > 1) return load_masked(e);
  if (e.type.lanes > 1 && e.ival != 1) return load_strided(e);
  return load_plain(e);
}

Value* Emitter::load_plain(const ExprNode& e) {
  return from_memory(e.type.elem, read(e.id, address(e.id, e.args[0], true), e.type.lanes));
}

Value* Emitter::load_masked(const ExprNode& e) {
  Value* mask = expr(e.args[1]);
  const int32_t lanes = e.type.lanes;
  if (lanes == 1) return load_elements(e.id, e.type, expr(e.args[0]), mask);
  if (e.ival == 1) {
    llvm::Type* elem = memory_type(e.type.elem);
    llvm::Type* t = llvm::FixedVectorType::get(elem, static_cast<unsigned>(lanes));
    const llvm::Align align(elem->getScalarSizeInBits() / 8);
    Value* at = address(e.id, e.args[0], false);
    auto* v = builder_.CreateMaskedLoad(t, at, align, mask, llvm::Constant::getNullValue(t));
    return from_memory(e.type.elem, tagged(v, e.id));
  }
  Value* index = expr(e.args[0]);
  if (e.ival == 0) {
    Value* one = load_elements(e.id, {e.type.elem, 1}, index, builder_.CreateOrReduce(mask));
    return builder_.CreateSelect(mask, splat(one, lanes), llvm::Constant::getNullValue(type(e.type)));
  }
  std::vector<llvm::Constant*> offsets;
  for (int64_t k = 0; k < lanes; ++k) offsets.push_back(builder_.getInt64(static_cast<uint64_t>(k * e.ival)));
  Value* indices = builder_.CreateAdd(splat(index, lanes), llvm::ConstantVector::get(offsets));
  return load_elements(e.id, e.type, indices, mask);
}

// Loads adjacent vectors that together contain every wanted element. The last vector ends at the last wanted element,
// so nothing beyond it is read. One shuffle per additional vector then picks the wanted lanes.
Value* Emitter::load_strided(const ExprNode& e) {
  constexpr int64_t kMaxStride = 4;
  const int64_t lanes = e.type.lanes;
  const int64_t stride = e.ival < 0 ? -e.ival : e.ival;
  Value* first = expr(e.args[0]);
  if (stride == 0) return splat(from_memory(e.type.elem, read(e.id, element_address(e.id, first), 1)), e.type.lanes);
  const auto offset = [&](int64_t k) { return builder_.CreateAdd(first, builder_.getInt64(static_cast<uint64_t>(k))); };
  if (stride > kMaxStride || lanes < 4) {
    Value* result = llvm::PoisonValue::get(type({e.type.elem, e.type.lanes}));
    for (int64_t k = 0; k < lanes; ++k) {
      Value* one = from_memory(e.type.elem, read(e.id, element_address(e.id, offset(k * e.ival)), 1));
      result = builder_.CreateInsertElement(result, one, static_cast<uint64_t>(k));
    }
    return result;
  }
  const int64_t span = stride * (lanes - 1) + 1;  // elements from the lowest to the highest
  const int64_t low = e.ival < 0 ? -(span - 1) : 0;
  Value* result = nullptr;
  int64_t begin = 0;
  for (int64_t part = 0; part < stride; ++part) {
    begin = part * lanes + lanes <= span ? part * lanes : span - lanes;
    Value* v = read(e.id, element_address(e.id, offset(low + begin)), e.type.lanes);
    std::vector<int> pick;
    for (int64_t k = 0; k < lanes; ++k) {
      const int64_t at = (e.ival < 0 ? lanes - 1 - k : k) * stride;  // from the lowest element
      const bool here = at >= part * lanes && at < (part + 1) * lanes;
      pick.push_back(static_cast<int>(here ? (result == nullptr ? at : lanes + at - begin) : k));
    }
    result = builder_.CreateShuffleVector(result == nullptr ? v : result, v, pick);
  }
  return from_memory(e.type.elem, result);
}

// Lanes that are masked off read element 0, which every buffer has, so no branch is needed.
Value* Emitter::load_elements(int32_t buffer, VType t, Value* indices, Value* mask) {
  if (mask != nullptr) {
    indices = builder_.CreateSelect(mask, indices, llvm::Constant::getNullValue(indices->getType()));
  }
  Value* at = element_address(buffer, indices);
  Value* v = nullptr;
  if (t.lanes == 1) {
    v = read(buffer, at, 1);
  } else {
    llvm::Type* elem = memory_type(t.elem);
    llvm::Type* vector = llvm::FixedVectorType::get(elem, static_cast<unsigned>(t.lanes));
    v = tagged(builder_.CreateMaskedGather(vector, at, llvm::Align(elem->getScalarSizeInBits() / 8)), buffer);
  }
  v = from_memory(t.elem, v);
  return mask == nullptr ? v : builder_.CreateSelect(mask, v, llvm::Constant::getNullValue(v->getType()));
}

Value* Emitter::gather(const ExprNode& e) {
  Value* indices = expr(e.args[0]);
  return load_elements(e.id, e.type, indices, e.args.size() > 1 ? expr(e.args[1]) : nullptr);
}

void Emitter::store(const StmtNode& s) {
  Value* v = to_memory(s.b.elem(), expr(s.b));
  const llvm::Align align(v->getType()->getScalarSizeInBits() / 8);
  if (!s.mask.defined()) {
    Value* at = address(s.id, s.a, true);
    tagged(builder_.CreateAlignedStore(v, at, align), s.id);
    return;
  }
  Value* mask = expr(s.mask);
  Value* at = address(s.id, s.a, false);
  // For a mask with one lane on, LLVM 22 emits a scalar store of the value before its truncation to i8 or bf16, which
  // writes too many bytes.
  if (const int64_t lane = only_lane(mask); s.b.lanes() > 1 && lane >= 0) {
    Value* one = builder_.CreateExtractElement(v, static_cast<uint64_t>(lane));
    Value* place = builder_.CreateGEP(one->getType(), at, builder_.getInt64(static_cast<uint64_t>(lane)));
    tagged(builder_.CreateAlignedStore(one, place, align), s.id);
    return;
  }
  if (s.b.lanes() == 1) {
    v = builder_.CreateBitCast(v, llvm::FixedVectorType::get(v->getType(), 1));
    mask = builder_.CreateBitCast(mask, llvm::FixedVectorType::get(mask->getType(), 1));
  }
  tagged(builder_.CreateMaskedStore(v, at, align, mask), s.id);
}

void Emitter::scatter(const StmtNode& s) {
  Value* v = to_memory(s.b.elem(), expr(s.b));
  Value* at = element_address(s.id, expr(s.a));
  const llvm::Align align(v->getType()->getScalarSizeInBits() / 8);
  if (s.b.lanes() == 1 && !s.mask.defined()) {
    tagged(builder_.CreateAlignedStore(v, at, align), s.id);
    return;
  }
  Value* mask = s.mask.defined() ? expr(s.mask) : nullptr;
  if (s.b.lanes() == 1) {
    v = builder_.CreateBitCast(v, llvm::FixedVectorType::get(v->getType(), 1));
    mask = builder_.CreateBitCast(mask, llvm::FixedVectorType::get(mask->getType(), 1));
    tagged(builder_.CreateMaskedStore(v, at, align, mask), s.id);
    return;
  }
  tagged(builder_.CreateMaskedScatter(v, at, align, mask), s.id);
}

void Emitter::prefetch(const StmtNode& s) {
  constexpr uint32_t kRead = 0;
  constexpr uint32_t kKeepInL1 = 3;
  constexpr uint32_t kData = 1;
  Value* at = address(s.id, s.a, false);
  builder_.CreateIntrinsic(llvm::Intrinsic::prefetch, {at->getType()},
                           {at, builder_.getInt32(kRead), builder_.getInt32(kKeepInL1), builder_.getInt32(kData)});
}

}  // namespace kilter::codegen
