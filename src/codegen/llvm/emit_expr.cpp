#include <llvm/IR/Intrinsics.h>

#include "codegen/llvm/emitter.h"
#include "loop/small_float.h"

namespace kilter::codegen {

using llvm::Value;
namespace intrinsic = llvm::Intrinsic;

namespace {

llvm::Constant* constant_int(llvm::Type* type, uint64_t value) { return llvm::ConstantInt::get(type, value); }

/// Returns the integer constant that every lane of `v` equals; null if there is none.
const llvm::ConstantInt* splat_int(Value* v) {
  const auto* c = llvm::dyn_cast<llvm::Constant>(v);
  if (c != nullptr && c->getType()->isVectorTy()) c = c->getSplatValue();
  return llvm::dyn_cast_if_present<llvm::ConstantInt>(c);
}

/// Returns whether dividing by `v` needs no guard: it is a constant other than 0 and -1.
bool is_safe_divisor(Value* v) {
  const llvm::ConstantInt* c = splat_int(v);
  return c != nullptr && !c->isZero() && !c->isMinusOne();
}

}  // namespace

llvm::Type* Emitter::elem_type(DType type) {
  switch (type) {
    case DType::f32:
      return builder_.getFloatTy();
    case DType::f64:
      return builder_.getDoubleTy();
    case DType::boolean:
      return builder_.getInt1Ty();
    default:
      if (!is_arithmetic(type)) unsupported(fmt::format("elements of type {} have no machine form", name(type)));
      return builder_.getIntNTy(static_cast<unsigned>(size_bytes(type)) * 8);
  }
}

llvm::Type* Emitter::memory_type(DType type) { return type == DType::boolean ? builder_.getInt8Ty() : elem_type(type); }

llvm::Type* Emitter::type(VType t) {
  llvm::Type* elem = elem_type(t.elem);
  return t.lanes == 1 ? elem : llvm::FixedVectorType::get(elem, static_cast<unsigned>(t.lanes));
}

llvm::Type* Emitter::same_lanes(llvm::Type* elem, Value* like) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(like->getType());
  return vector == nullptr ? elem : llvm::FixedVectorType::get(elem, vector->getNumElements());
}

Value* Emitter::expr(const Expr& e) {
  if (e->kind == ExprKind::var) return vars_.at(static_cast<size_t>(e->id));
  if (e->kind == ExprKind::int_imm || e->kind == ExprKind::float_imm) return constant(*e);
  const auto known = memo_.find(e.get());
  if (known != memo_.end()) return known->second;
  Value* v = compute(*e);
  memo_.emplace(e.get(), v);
  return v;
}

Value* Emitter::compute(const ExprNode& e) {
  switch (e.kind) {
    case ExprKind::reg: {
      const auto id = static_cast<size_t>(e.id);
      return builder_.CreateLoad(type(e.type), registers_.at(id), func_.regs.at(id).name);
    }
    case ExprKind::load:
      return load(e);
    case ExprKind::gather:
      return gather(e);
    case ExprKind::unary:
      return unary(e.op, e.args[0].elem(), expr(e.args[0]));
    case ExprKind::binary:
      return binary(e);
    case ExprKind::fma: {
      Value* a = expr(e.args[0]);
      Value* b = expr(e.args[1]);
      Value* c = expr(e.args[2]);
      if (!is_small_float(e.type.elem)) return fused(a, b, c);
      const DType t = e.type.elem;
      return narrow(t, fused(widen(t, a), widen(t, b), widen(t, c)));
    }
    case ExprKind::dot:
      return dot(e);
    case ExprKind::select:
      return select(e);
    case ExprKind::cast:
      return cast(e.args[0].elem(), e.type.elem, expr(e.args[0]));
    case ExprKind::bitcast:
      return builder_.CreateBitCast(expr(e.args[0]), type(e.type));
    case ExprKind::broadcast:
      return splat(expr(e.args[0]), e.type.lanes);
    case ExprKind::ramp:
      return ramp(e);
    case ExprKind::shuffle:
      return shuffle(e);
    case ExprKind::lane_reduce:
      return lane_reduce(e);
    default:
      unsupported(fmt::format("expression of kind {}", static_cast<int>(e.kind)));
  }
}

Value* Emitter::constant(const ExprNode& e) {
  llvm::Type* t = type(e.type);
  if (e.kind == ExprKind::int_imm) {
    const bool is_bool = e.type.elem == DType::boolean;
    return llvm::ConstantInt::get(t, is_bool ? uint64_t{e.ival != 0} : static_cast<uint64_t>(e.ival), false, true);
  }
  switch (e.type.elem) {
    case DType::f16:
      return constant_int(t, Half(static_cast<float>(e.fval)).bits);
    case DType::bf16:
      return constant_int(t, BFloat16(static_cast<float>(e.fval)).bits);
    case DType::f32:
      return llvm::ConstantFP::get(t, llvm::APFloat(static_cast<float>(e.fval)));
    default:
      return llvm::ConstantFP::get(t, llvm::APFloat(e.fval));
  }
}

Value* Emitter::unary(Op op, DType elem, Value* a) {
  if (op == Op::logical_not || op == Op::bit_not) return builder_.CreateNot(a);
  if (!is_float(elem)) return unary_int(op, elem, a);
  if (is_small_float(elem)) {
    Value* wide = unary(op, DType::f32, widen(elem, a));
    return op == Op::is_nan ? wide : narrow(elem, wide);
  }
  switch (op) {
    case Op::neg:
      return builder_.CreateFNeg(a);
    case Op::abs:
      return builder_.CreateUnaryIntrinsic(intrinsic::fabs, a);
    case Op::floor:
      return builder_.CreateUnaryIntrinsic(intrinsic::floor, a);
    case Op::ceil:
      return builder_.CreateUnaryIntrinsic(intrinsic::ceil, a);
    case Op::round_even:
      return builder_.CreateUnaryIntrinsic(intrinsic::roundeven, a);
    case Op::trunc:
      return builder_.CreateUnaryIntrinsic(intrinsic::trunc, a);
    case Op::sqrt:
      return builder_.CreateUnaryIntrinsic(intrinsic::sqrt, a);
    case Op::is_nan:
      return builder_.CreateFCmpUNO(a, a);
    default:
      unsupported(fmt::format("{} of {} has no instruction; expand_math has to run first", name(op), name(elem)));
  }
}

Value* Emitter::unary_int(Op op, DType elem, Value* a) {
  switch (op) {
    case Op::neg:
      return builder_.CreateNeg(a);
    case Op::abs:
      if (!is_signed_integer(elem)) return a;
      return builder_.CreateBinaryIntrinsic(intrinsic::abs, a, builder_.getFalse());
    default:
      unsupported(fmt::format("{} of {}", name(op), name(elem)));
  }
}

Value* Emitter::binary(const ExprNode& e) { return combine(e.op, e.args[0].elem(), expr(e.args[0]), expr(e.args[1])); }

Value* Emitter::combine(Op op, DType elem, Value* a, Value* b) {
  if (is_small_float(elem)) {
    Value* wide = combine(op, DType::f32, widen(elem, a), widen(elem, b));
    return is_comparison(op) ? wide : narrow(elem, wide);
  }
  if (is_comparison(op)) return compare(op, elem, a, b);
  return is_float(elem) ? binary_float(op, a, b) : binary_int(op, elem, a, b);
}

Value* Emitter::binary_float(Op op, Value* a, Value* b) {
  switch (op) {
    case Op::add:
      return builder_.CreateFAdd(a, b);
    case Op::sub:
      return builder_.CreateFSub(a, b);
    case Op::mul:
      return builder_.CreateFMul(a, b);
    case Op::div:
      return builder_.CreateFDiv(a, b);
    case Op::min:
      return builder_.CreateSelect(builder_.CreateFCmpOLT(a, b), a, b);
    case Op::max:
      return builder_.CreateSelect(builder_.CreateFCmpOGT(a, b), a, b);
    default:
      unsupported(fmt::format("{} of floats has no instruction; expand_math has to run first", name(op)));
  }
}

Value* Emitter::binary_int(Op op, DType elem, Value* a, Value* b) {
  const bool is_signed = is_signed_integer(elem);
  switch (op) {
    case Op::add:
      return builder_.CreateAdd(a, b);
    case Op::sub:
      return builder_.CreateSub(a, b);
    case Op::mul:
      return builder_.CreateMul(a, b);
    case Op::div:
    case Op::mod:
      return divide_int(op, is_signed, a, b);
    case Op::min:
      return builder_.CreateBinaryIntrinsic(is_signed ? intrinsic::smin : intrinsic::umin, a, b);
    case Op::max:
      return builder_.CreateBinaryIntrinsic(is_signed ? intrinsic::smax : intrinsic::umax, a, b);
    case Op::bit_and:
    case Op::logical_and:
      return builder_.CreateAnd(a, b);
    case Op::bit_or:
    case Op::logical_or:
      return builder_.CreateOr(a, b);
    case Op::bit_xor:
      return builder_.CreateXor(a, b);
    case Op::shl:
    case Op::shr:
      return shift(op, is_signed, a, b);
    default:
      unsupported(fmt::format("{} of {} has no instruction", name(op), name(elem)));
  }
}

// The instruction traps on a zero divisor and on lowest / -1. The loop IR defines these quotients as 0 and lowest.
Value* Emitter::divide_int(Op op, bool is_signed, Value* a, Value* b) {
  const auto divide = [&](Value* divisor) {
    if (op == Op::div) return is_signed ? builder_.CreateSDiv(a, divisor) : builder_.CreateUDiv(a, divisor);
    return is_signed ? builder_.CreateSRem(a, divisor) : builder_.CreateURem(a, divisor);
  };
  if (is_safe_divisor(b)) return divide(b);
  Value* zero = llvm::Constant::getNullValue(a->getType());
  Value* one = constant_int(a->getType(), 1);
  Value* by_zero = builder_.CreateICmpEQ(b, zero);
  Value* by_minus_one = is_signed ? builder_.CreateICmpEQ(b, llvm::Constant::getAllOnesValue(a->getType())) : by_zero;
  Value* quotient = divide(builder_.CreateSelect(builder_.CreateOr(by_zero, by_minus_one), one, b));
  if (op == Op::mod) return quotient;  // x % 1 is 0, as required for a zero divisor and for lowest % -1
  if (is_signed) quotient = builder_.CreateSelect(by_minus_one, builder_.CreateNeg(a), quotient);
  return builder_.CreateSelect(by_zero, zero, quotient);
}

Value* Emitter::shift(Op op, bool is_signed, Value* a, Value* b) {
  const unsigned width = a->getType()->getScalarSizeInBits();
  if (const llvm::ConstantInt* count = splat_int(b); count != nullptr && count->getValue().ult(width)) {
    if (op == Op::shl) return builder_.CreateShl(a, b);
    return is_signed ? builder_.CreateAShr(a, b) : builder_.CreateLShr(a, b);
  }
  Value* within = builder_.CreateICmpULT(b, constant_int(b->getType(), width));
  if (op == Op::shr && is_signed) {
    return builder_.CreateAShr(a, builder_.CreateSelect(within, b, constant_int(b->getType(), width - 1)));
  }
  Value* shifted = op == Op::shl ? builder_.CreateShl(a, b) : builder_.CreateLShr(a, b);
  return builder_.CreateSelect(within, shifted, llvm::Constant::getNullValue(a->getType()));
}

Value* Emitter::compare(Op op, DType elem, Value* a, Value* b) {
  using P = llvm::CmpInst::Predicate;
  const auto pick = [&](P of_float, P of_signed, P of_unsigned) {
    return is_float(elem) ? of_float : is_signed_integer(elem) ? of_signed : of_unsigned;
  };
  switch (op) {
    case Op::eq:
      return builder_.CreateCmp(pick(P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ), a, b);
    case Op::ne:
      return builder_.CreateCmp(pick(P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE), a, b);
    case Op::lt:
      return builder_.CreateCmp(pick(P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT), a, b);
    case Op::le:
      return builder_.CreateCmp(pick(P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE), a, b);
    case Op::gt:
      return builder_.CreateCmp(pick(P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT), a, b);
    default:
      return builder_.CreateCmp(pick(P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE), a, b);
  }
}

Value* Emitter::fused(Value* a, Value* b, Value* c) {
  if (!target_.limits.fma) return builder_.CreateFAdd(builder_.CreateFMul(a, b), c);
  return builder_.CreateIntrinsic(intrinsic::fma, {a->getType()}, {a, b, c});
}

Value* Emitter::select(const ExprNode& e) {
  Value* condition = expr(e.args[0]);
  Value* a = expr(e.args[1]);
  Value* b = expr(e.args[2]);
  return builder_.CreateSelect(condition, a, b);
}

Value* Emitter::splat(Value* scalar, int32_t lanes) {
  return lanes == 1 ? scalar : builder_.CreateVectorSplat(static_cast<unsigned>(lanes), scalar);
}

Value* Emitter::ramp(const ExprNode& e) {
  std::vector<llvm::Constant*> lanes;
  for (int32_t k = 0; k < e.type.lanes; ++k) {
    lanes.push_back(llvm::ConstantInt::get(elem_type(e.type.elem), static_cast<uint64_t>(k), false, true));
  }
  Value* steps = builder_.CreateMul(llvm::ConstantVector::get(lanes), splat(expr(e.args[1]), e.type.lanes));
  return builder_.CreateAdd(splat(expr(e.args[0]), e.type.lanes), steps);
}

// The emitter represents a vector of one lane as a scalar, but shufflevector takes and returns vectors.
Value* Emitter::shuffle(const ExprNode& e) {
  const auto vector = [&](const Expr& a) {
    Value* v = expr(a);
    return a.lanes() == 1 ? builder_.CreateVectorSplat(1, v) : v;
  };
  Value* result = builder_.CreateShuffleVector(vector(e.args[0]), vector(e.args[1]), e.picks);
  return e.type.lanes == 1 ? builder_.CreateExtractElement(result, uint64_t{0}) : result;
}

Value* Emitter::lane_reduce(const ExprNode& e) {
  const DType elem = e.type.elem;
  Value* v = expr(e.args[0]);
  if (e.op == Op::logical_and) return builder_.CreateAndReduce(v);
  if (e.op == Op::logical_or) return builder_.CreateOrReduce(v);
  const int32_t lanes = e.args[0].lanes();
  if ((lanes & (lanes - 1)) != 0) {
    Value* result = builder_.CreateExtractElement(v, uint64_t{0});
    for (int32_t k = 1; k < lanes; ++k) {
      result = combine(e.op, elem, result, builder_.CreateExtractElement(v, static_cast<uint64_t>(k)));
    }
    return result;
  }
  for (int32_t half = lanes / 2; half > 0; half /= 2) {
    std::vector<int> low, high;
    for (int32_t k = 0; k < half; ++k) {
      low.push_back(k);
      high.push_back(k + half);
    }
    v = combine(e.op, elem, builder_.CreateShuffleVector(v, low), builder_.CreateShuffleVector(v, high));
  }
  return builder_.CreateExtractElement(v, uint64_t{0});
}

}  // namespace kilter::codegen
