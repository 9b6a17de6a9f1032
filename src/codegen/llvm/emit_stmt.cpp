#include <llvm/IR/MDBuilder.h>

#include <algorithm>

#include "codegen/llvm/emitter.h"

namespace kilter::codegen {

using llvm::BasicBlock;
using llvm::Value;

Emitter::Emitter(llvm::Module& module, const LoopFunc& func, const Target& target)
    : module_(module), context_(module.getContext()), func_(func), target_(target), builder_(context_) {}

void Emitter::unsupported(std::string_view what) const {
  fail(ErrorKind::internal, "code generation of '{}': {}", func_.name, what);
}

llvm::Function* Emitter::emit(const std::string& symbol) {
  declare(symbol);
  declare_buffers();
  declare_registers();
  begin_tiles();
  parallel_loop();
  end_tiles();
  builder_.CreateRet(status());
  return function_;
}

void Emitter::declare(const std::string& symbol) {
  llvm::Type* i64 = builder_.getInt64Ty();
  llvm::Type* i32 = builder_.getInt32Ty();
  auto* signature = llvm::FunctionType::get(i32, {builder_.getPtrTy(), i64, i64, i32}, false);
  function_ = llvm::Function::Create(signature, llvm::GlobalValue::ExternalLinkage, symbol, module_);
  function_->setDSOLocal(true);
  function_->setAlignment(llvm::Align(64));
  function_->addFnAttr(llvm::Attribute::NoUnwind);
  if (target_.arch == Arch::x86_64) {
    // Keeps the loop IR's vectors whole. Without this, LLVM splits 512-bit vectors if a processor's tuning prefers 256
    // bits.
    const std::string bits = std::to_string(target_.limits.vector_bytes * 8);
    function_->addFnAttr("prefer-vector-width", bits);
    function_->addFnAttr("min-legal-vector-width", bits);
  }
  if (target_.arch == Arch::aarch64 && target_.limits.vector_bytes > 16) {
    // Makes vectors of the target's length legal in LLVM, although SVE registers have no fixed length.
    const auto parts = static_cast<unsigned>(target_.limits.vector_bytes / 16);
    function_->addFnAttr(llvm::Attribute::getWithVScaleRangeArgs(context_, parts, parts));
  }
  function_->addFnAttr("no-trapping-math", "true");
  function_->addFnAttr("no-builtins");
  for (const unsigned argument : {0U, 1U, 2U, 3U}) function_->addParamAttr(argument, llvm::Attribute::NoUndef);
  builder_.SetInsertPoint(BasicBlock::Create(context_, "entry", function_));
}

void Emitter::declare_buffers() {
  Value* args = function_->getArg(0);
  llvm::Type* ptr = builder_.getPtrTy();
  llvm::Type* i8 = builder_.getInt8Ty();
  llvm::Type* i64 = builder_.getInt64Ty();
  llvm::MDBuilder md(context_);
  llvm::MDNode* domain = md.createAnonymousAliasScopeDomain();
  std::vector<llvm::Metadata*> scopes;
  for (size_t i = 0; i < func_.buffers.size(); ++i) scopes.push_back(md.createAnonymousAliasScope(domain));

  Value* table = nullptr;
  Value* scratch = nullptr;
  int64_t argument = 0;
  int64_t scratch_at = 0;
  for (size_t i = 0; i < func_.buffers.size(); ++i) {
    const Buffer& b = func_.buffers[i];
    if (b.kind == BufferKind::scratch) {
      if (scratch == nullptr) {
        Value* base = builder_.CreateLoad(ptr, builder_.CreateConstGEP1_64(i8, args, KernelArgsLayout::kScratch));
        Value* stride =
            builder_.CreateLoad(i64, builder_.CreateConstGEP1_64(i8, args, KernelArgsLayout::kScratchStride));
        Value* worker = builder_.CreateSExt(function_->getArg(3), i64);
        scratch = builder_.CreateGEP(i8, base, builder_.CreateMul(worker, stride));
      }
      buffers_.push_back(builder_.CreateConstGEP1_64(i8, scratch, static_cast<uint64_t>(scratch_at), b.name));
      scratch_at += (b.elems * size_bytes(b.type) + 63) / 64 * 64;
    } else {
      if (table == nullptr) {
        table = builder_.CreateLoad(ptr, builder_.CreateConstGEP1_64(i8, args, KernelArgsLayout::kBuffers));
      }
      buffers_.push_back(
          builder_.CreateLoad(ptr, builder_.CreateConstGEP1_64(ptr, table, static_cast<uint64_t>(argument++)), b.name));
    }
    std::vector<llvm::Metadata*> others = scopes;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    scope_.push_back(llvm::MDNode::get(context_, scopes[i]));
    others_.push_back(others.empty() ? nullptr : llvm::MDNode::get(context_, others));
  }
}

void Emitter::declare_registers() {
  for (const VarInfo& r : func_.regs) registers_.push_back(builder_.CreateAlloca(type(r.type), nullptr, r.name));
  vars_.resize(func_.vars.size(), nullptr);
}

template <class F>
void Emitter::counted_loop(const std::string& name, Value* begin, Value* end, int64_t step, F body) {
  const auto* first = llvm::dyn_cast<llvm::ConstantInt>(begin);
  const auto* limit = llvm::dyn_cast<llvm::ConstantInt>(end);
  const bool known = first != nullptr && limit != nullptr;
  if (known && first->getSExtValue() >= limit->getSExtValue()) return;
  BasicBlock* before = builder_.GetInsertBlock();
  auto* header = BasicBlock::Create(context_, name, function_);
  auto* done = BasicBlock::Create(context_, "", function_);
  if (known) {
    builder_.CreateBr(header);
  } else {
    auto* preheader = BasicBlock::Create(context_, "", function_, header);
    builder_.CreateCondBr(builder_.CreateICmpSLT(begin, end), preheader, done);
    builder_.SetInsertPoint(preheader);
    builder_.CreateBr(header);
    before = preheader;
  }
  builder_.SetInsertPoint(header);
  llvm::PHINode* counter = builder_.CreatePHI(builder_.getInt64Ty(), 2, name);
  counter->addIncoming(begin, before);
  body(counter);
  Value* next = builder_.CreateNSWAdd(counter, builder_.getInt64(static_cast<uint64_t>(step)));
  counter->addIncoming(next, builder_.GetInsertBlock());
  builder_.CreateCondBr(builder_.CreateICmpSLT(next, end), header, done);
  done->moveAfter(builder_.GetInsertBlock());
  builder_.SetInsertPoint(done);
}

void Emitter::parallel_loop() {
  counted_loop("p", function_->getArg(1), function_->getArg(2), 1, [&](Value* linear) {
    decode_parallel(linear);
    block(func_.body);
  });
}

void Emitter::decode_parallel(Value* linear) {
  for (size_t i = func_.parallel.size(); i-- > 0;) {
    const ParallelDim& d = func_.parallel[i];
    Value*& var = vars_.at(static_cast<size_t>(d.var));
    if (i == 0) {
      var = linear;
      return;
    }
    Value* extent = builder_.getInt64(static_cast<uint64_t>(d.extent));
    Value* rest = builder_.CreateUDiv(linear, extent);
    var = builder_.CreateSub(linear, builder_.CreateMul(rest, extent));
    linear = rest;
  }
}

namespace {

/// Returns whether a statement binds one element of memory, broadcast to all lanes.
bool binds_spread(const StmtNode& s) {
  if (s.kind != StmtKind::let || s.a->type.lanes == 1) return false;
  return s.a->kind == ExprKind::load ? s.a->ival == 0
                                     : s.a->kind == ExprKind::broadcast && s.a->args[0]->kind == ExprKind::load;
}
/// Returns whether a statement binds a vector of adjacent elements.
bool binds_vector(const StmtNode& s) {
  return s.kind == StmtKind::let && s.a->kind == ExprKind::load && s.a->type.lanes > 1 && s.a->ival == 1;
}

}  // namespace

// A register tile uses all registers, so its loads must stay where they are. LLVM's instruction selection groups up to
// four loads of nearby addresses, and a 14x2 tile spills if the weights of later steps are loaded together with those
// of the first. A single-thread fence emits no instruction and keeps loads after it from being grouped with loads
// before it. In blocks that also broadcast, a vector load after a register has been set begins the next step.
void Emitter::block(const std::vector<Stmt>& stmts) {
  const bool tile = std::any_of(stmts.begin(), stmts.end(), [](const Stmt& s) { return binds_spread(*s); });
  bool was_set = false;
  for (const Stmt& s : stmts) {
    if (tile && was_set && binds_vector(*s))
      builder_.CreateFence(llvm::AtomicOrdering::AcquireRelease, llvm::SyncScope::SingleThread);
    was_set = s->kind == StmtKind::reg_set;
    statement(*s);
  }
}

void Emitter::statement(const StmtNode& s) {
  memo_.clear();
  switch (s.kind) {
    case StmtKind::block:
      return block(s.body);
    case StmtKind::loop:
      return loop(s);
    case StmtKind::let:
      vars_.at(static_cast<size_t>(s.id)) = expr(s.a);
      return;
    case StmtKind::store:
      return store(s);
    case StmtKind::scatter:
      return scatter(s);
    case StmtKind::reg_decl:
    case StmtKind::reg_set:
      builder_.CreateStore(expr(s.a), registers_.at(static_cast<size_t>(s.id)));
      return;
    case StmtKind::if_then:
      return branch(s);
    case StmtKind::prefetch:
      return prefetch(s);
    case StmtKind::check:
      return check(s);
    case StmtKind::barrier:
      fail(ErrorKind::internal, "'{}': a barrier in code for a CPU", func_.name);  // accepts() refuses it
    case StmtKind::tiles:
      return tiles(s);
    case StmtKind::tile_zero:
    case StmtKind::tile_load:
    case StmtKind::tile_store:
    case StmtKind::tile_dot:
      return tile(s);
  }
}

llvm::AllocaInst* Emitter::entry_slot(llvm::Type* type, llvm::Constant* initial, const char* name) {
  llvm::IRBuilder<> entry(&function_->getEntryBlock(), function_->getEntryBlock().begin());
  llvm::AllocaInst* slot = entry.CreateAlloca(type, nullptr, name);
  entry.CreateStore(initial, slot);
  return slot;
}

// Checks nearly always succeed. A scalar check is a branch marked as unlikely. Vector checks are collected lane by lane
// and evaluated at the end of the kernel.
void Emitter::check(const StmtNode& s) {
  if (status_ == nullptr) status_ = entry_slot(builder_.getInt32Ty(), builder_.getInt32(0), "status");
  if (s.a->kind == ExprKind::lane_reduce && s.a->op == Op::logical_and) return collect_check(s.a->args[0]);
  auto* failed = BasicBlock::Create(context_, "failed", function_);
  auto* holds = BasicBlock::Create(context_, "", function_);
  builder_.CreateCondBr(expr(s.a), holds, failed, likely());
  builder_.SetInsertPoint(failed);
  builder_.CreateStore(builder_.getInt32(kCheckFailed), status_);
  builder_.CreateBr(holds);
  holds->moveAfter(failed);
  builder_.SetInsertPoint(holds);
}

namespace {

/// Returns the element size in bits of the vectors whose comparison gives the mask. A mask with elements of this size
/// has the shape of those vectors.
unsigned mask_bits(const llvm::Value* mask) {
  constexpr unsigned kUnknown = 8;
  if (const auto* compare = llvm::dyn_cast<llvm::CmpInst>(mask))
    return compare->getOperand(0)->getType()->getScalarSizeInBits();
  const auto* joined = llvm::dyn_cast<llvm::BinaryOperator>(mask);
  return joined != nullptr ? mask_bits(joined->getOperand(0)) : kUnknown;
}

}  // namespace

void Emitter::collect_check(const Expr& lanes) {
  Value* holds = expr(lanes);
  const unsigned bits = target_.limits.masks ? 1 : mask_bits(holds);
  llvm::Type* type = llvm::FixedVectorType::get(builder_.getIntNTy(bits), static_cast<unsigned>(lanes.lanes()));
  llvm::AllocaInst*& slot = collected_[{bits, lanes.lanes()}];
  if (slot == nullptr) slot = entry_slot(type, llvm::Constant::getAllOnesValue(type), "collected");
  if (bits > 1) holds = builder_.CreateSExt(holds, type);
  builder_.CreateStore(builder_.CreateAnd(builder_.CreateLoad(type, slot), holds), slot);
}

llvm::Value* Emitter::status() {
  if (status_ == nullptr) return builder_.getInt32(0);
  Value* status = builder_.CreateLoad(builder_.getInt32Ty(), status_);
  for (const auto& [form, slot] : collected_) {
    Value* holds = builder_.CreateLoad(slot->getAllocatedType(), slot);
    Value* failed = builder_.CreateOrReduce(
        builder_.CreateICmpNE(holds, llvm::Constant::getAllOnesValue(slot->getAllocatedType())));
    status = builder_.CreateSelect(failed, builder_.getInt32(kCheckFailed), status);
  }
  return status;
}

void Emitter::loop(const StmtNode& s) {
  Value* begin = expr(s.a);
  Value* end = expr(s.b);
  counted_loop(func_.vars.at(static_cast<size_t>(s.id)).name, begin, end, s.step, [&](Value* counter) {
    vars_.at(static_cast<size_t>(s.id)) = counter;
    block(s.body);
  });
}

// Without branch weights, code that hardly ever runs takes registers from the loops around it.
llvm::MDNode* Emitter::likely() {
  constexpr uint32_t kLikely = 1 << 20;
  return llvm::MDBuilder(context_).createBranchWeights(kLikely, 1);
}

void Emitter::branch(const StmtNode& s) {
  auto* then = BasicBlock::Create(context_, "then", function_);
  auto* done = BasicBlock::Create(context_, "", function_);
  auto* otherwise = s.other.empty() ? done : BasicBlock::Create(context_, "else", function_);
  builder_.CreateCondBr(expr(s.a), then, otherwise, s.likely ? likely() : nullptr);
  builder_.SetInsertPoint(then);
  block(s.body);
  builder_.CreateBr(done);
  if (!s.other.empty()) {
    otherwise->moveAfter(builder_.GetInsertBlock());
    builder_.SetInsertPoint(otherwise);
    block(s.other);
    builder_.CreateBr(done);
  }
  done->moveAfter(builder_.GetInsertBlock());
  builder_.SetInsertPoint(done);
}

}  // namespace kilter::codegen
