#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "codegen/llvm/emitter.h"

namespace kilter::codegen {

using llvm::Value;
namespace intrinsic = llvm::Intrinsic;

namespace {

/// Returns the instruction for sums of `bits` bits, given its forms for 128, 256 and 512.
intrinsic::ID of_width(int64_t bits, intrinsic::ID narrow, intrinsic::ID middle, intrinsic::ID wide) {
  return bits == 128 ? narrow : bits == 256 ? middle : wide;
}

}  // namespace

// expand_math leaves dot() only where the target has an instruction.
Value* Emitter::dot(const ExprNode& e) {
  const DType a = e.args[0].elem();
  if (target_.arch != Arch::x86_64 || !target_.limits.has_dot(a, e.args[1].elem(), e.type.lanes))
    unsupported(
        fmt::format("dot of {} and {}; expand_math has to run first", text(e.args[0].type()), text(e.args[1].type())));
  const int64_t bits = int64_t{32} * e.type.lanes;
  Value* acc = expr(e.args[2]);
  if (a == DType::bf16) {
    const auto id = of_width(bits, intrinsic::x86_avx512bf16_dpbf16ps_128, intrinsic::x86_avx512bf16_dpbf16ps_256,
                             intrinsic::x86_avx512bf16_dpbf16ps_512);
    llvm::Type* bfloats = llvm::FixedVectorType::get(builder_.getBFloatTy(), 2 * static_cast<unsigned>(e.type.lanes));
    return builder_.CreateIntrinsic(
        id, {},
        {acc, builder_.CreateBitCast(expr(e.args[0]), bfloats), builder_.CreateBitCast(expr(e.args[1]), bfloats)});
  }
  const auto id = of_width(bits, intrinsic::x86_avx512_vpdpbusd_128, intrinsic::x86_avx512_vpdpbusd_256,
                           intrinsic::x86_avx512_vpdpbusd_512);
  // The operands are vectors of bytes in newer versions of LLVM, and of words in older ones.
  llvm::Type* bytes = intrinsic::getType(context_, id)->getParamType(1);
  return builder_.CreateIntrinsic(
      id, {}, {acc, builder_.CreateBitCast(expr(e.args[0]), bytes), builder_.CreateBitCast(expr(e.args[1]), bytes)});
}

}  // namespace kilter::codegen
