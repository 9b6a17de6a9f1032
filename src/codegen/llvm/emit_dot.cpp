#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsAArch64.h>
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
  const bool pairs = e.type.elem == DType::i16;  // their instruction comes with that for words
  if (!(pairs ? target_.limits.has_dot(DType::i16, DType::i16, e.type.lanes / 2)
              : target_.limits.has_dot(e.args[0].elem(), e.args[1].elem(), e.type.lanes)))
    unsupported(
        fmt::format("dot of {} and {}; expand_math has to run first", text(e.args[0].type()), text(e.args[1].type())));
  return target_.arch == Arch::x86_64 ? x86_dot(e) : arm_dot(e);
}

Value* Emitter::x86_dot(const ExprNode& e) {
  const DType a = e.args[0].elem();
  const int64_t bits = int64_t{8} * size_bytes(e.type.elem) * e.type.lanes;
  Value* acc = expr(e.args[2]);
  if (a == DType::bf16) {
    const auto id = of_width(bits, intrinsic::x86_avx512bf16_dpbf16ps_128, intrinsic::x86_avx512bf16_dpbf16ps_256,
                             intrinsic::x86_avx512bf16_dpbf16ps_512);
    llvm::Type* bfloats = llvm::FixedVectorType::get(builder_.getBFloatTy(), 2 * static_cast<unsigned>(e.type.lanes));
    return builder_.CreateIntrinsic(
        id, {},
        {acc, builder_.CreateBitCast(expr(e.args[0]), bfloats), builder_.CreateBitCast(expr(e.args[1]), bfloats)});
  }
  if (a == DType::i16) {
    const auto id =
        of_width(bits, intrinsic::x86_sse2_pmadd_wd, intrinsic::x86_avx2_pmadd_wd, intrinsic::x86_avx512_pmaddw_d_512);
    return builder_.CreateAdd(acc, builder_.CreateIntrinsic(id, {}, {expr(e.args[0]), expr(e.args[1])}));
  }
  if (e.type.elem == DType::i16) {
    const auto id = of_width(bits, intrinsic::x86_ssse3_pmadd_ub_sw_128, intrinsic::x86_avx2_pmadd_ub_sw,
                             intrinsic::x86_avx512_pmaddubs_w_512);
    Value* pair = builder_.CreateIntrinsic(id, {}, {expr(e.args[0]), expr(e.args[1])});
    int64_t start = 1;
    if (is_const(splat_of(e.args[2]), &start) && start == 0) return pair;
    return builder_.CreateBinaryIntrinsic(intrinsic::sadd_sat, acc, pair);
  }
  const auto id = of_width(bits, intrinsic::x86_avx512_vpdpbusd_128, intrinsic::x86_avx512_vpdpbusd_256,
                           intrinsic::x86_avx512_vpdpbusd_512);
  // The operands are vectors of bytes in newer versions of LLVM, and of words in older ones.
  llvm::Type* bytes = intrinsic::getType(context_, id)->getParamType(1);
  return builder_.CreateIntrinsic(
      id, {}, {acc, builder_.CreateBitCast(expr(e.args[0]), bytes), builder_.CreateBitCast(expr(e.args[1]), bytes)});
}

Value* Emitter::arm_dot(const ExprNode& e) {
  constexpr unsigned kNeonLanes = 4;
  const bool bf16 = e.args[0].elem() == DType::bf16;
  llvm::Type* sum = bf16 ? builder_.getFloatTy() : static_cast<llvm::Type*>(builder_.getInt32Ty());
  llvm::Type* factor = bf16 ? builder_.getBFloatTy() : static_cast<llvm::Type*>(builder_.getInt8Ty());
  const unsigned group = bf16 ? 2 : 4, lanes = static_cast<unsigned>(e.type.lanes);
  llvm::Type* factors = llvm::FixedVectorType::get(factor, group * lanes);
  Value* values[] = {expr(e.args[2]), builder_.CreateBitCast(expr(e.args[0]), factors),
                     builder_.CreateBitCast(expr(e.args[1]), factors)};
  if (lanes == kNeonLanes) {
    const auto id = bf16 ? intrinsic::aarch64_neon_bfdot : intrinsic::aarch64_neon_usdot;
    return builder_.CreateIntrinsic(id, {values[0]->getType(), factors}, values);
  }
  // SVE's instructions take vectors of any length; that of the target's registers is known.
  const auto scalable = [&](Value* v, llvm::Type* element, unsigned count) {
    llvm::Type* type = llvm::ScalableVectorType::get(element, count);
    return builder_.CreateInsertVector(type, llvm::PoisonValue::get(type), v, uint64_t{0});
  };
  Value* wide[] = {scalable(values[0], sum, kNeonLanes), scalable(values[1], factor, group * kNeonLanes),
                   scalable(values[2], factor, group * kNeonLanes)};
  Value* dots = bf16 ? builder_.CreateIntrinsic(intrinsic::aarch64_sve_bfdot, {}, wide)
                     : builder_.CreateIntrinsic(intrinsic::aarch64_sve_usdot, {wide[0]->getType()}, wide);
  return builder_.CreateExtractVector(values[0]->getType(), dots, uint64_t{0});
}

}  // namespace kilter::codegen
