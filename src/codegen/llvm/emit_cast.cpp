#include <llvm/IR/Intrinsics.h>

#include <cmath>

#include "codegen/llvm/emitter.h"
#include "loop/small_float.h"

namespace kilter::codegen {

using llvm::Value;
namespace intrinsic = llvm::Intrinsic;

namespace {

llvm::Constant* bits(Value* like, uint64_t value) { return llvm::ConstantInt::get(like->getType(), value); }

}  // namespace

Value* Emitter::cast(DType from, DType to, Value* v) {
  if (to == DType::boolean) return to_bool(from, v);
  if (is_small_float(from)) return cast(DType::f32, to, widen(from, v));
  if (is_small_float(to)) {
    if (from == DType::f64) return narrow(to, round_to_odd(v));
    return narrow(to, cast(from, DType::f32, v));
  }
  llvm::Type* t = same_lanes(elem_type(to), v);
  if (is_float(from)) return is_float(to) ? builder_.CreateFPCast(v, t) : float_to_int(to, v);
  const bool is_signed = is_signed_integer(from);
  if (is_float(to)) return is_signed ? builder_.CreateSIToFP(v, t) : builder_.CreateUIToFP(v, t);
  return builder_.CreateIntCast(v, t, is_signed);
}

Value* Emitter::to_bool(DType from, Value* v) {
  llvm::Constant* zero = llvm::Constant::getNullValue(v->getType());
  if (from == DType::f32 || from == DType::f64) return builder_.CreateFCmpUNE(v, zero);
  if (is_small_float(from)) v = builder_.CreateAnd(v, bits(v, 0x7fff));  // drops the sign, so that -0 is false
  return builder_.CreateICmpNE(v, zero);
}

Value* Emitter::float_to_int(DType to, Value* v) {
  llvm::Type* t = same_lanes(elem_type(to), v);
  const bool narrow = size_bytes(to) < 4 || to == DType::i32;
  if (target_.arch == Arch::x86_64 && narrow && v->getType()->isVectorTy()) return vector_to_int(to, v);
  const auto id = is_signed_integer(to) ? intrinsic::fptosi_sat : intrinsic::fptoui_sat;
  return builder_.CreateIntrinsic(id, {t, v->getType()}, {v});
}

// LLVM would convert the elements one by one, since x86 has no conversion that saturates.
Value* Emitter::vector_to_int(DType to, Value* v) {
  const int width = static_cast<int>(8 * size_bytes(to));
  const double low = is_signed_integer(to) ? -std::ldexp(1.0, width - 1) : 0;
  const double high = std::ldexp(1.0, is_signed_integer(to) ? width - 1 : width) - 1;
  const auto real = [&](double x) { return llvm::ConstantFP::get(v->getType(), x); };
  const bool single = v->getType()->getScalarType()->isFloatTy();
  const bool inexact = single && to == DType::i32;  // the largest i32 lies between two f32
  constexpr double kBelow = 0x1p31 - 128;
  llvm::Constant* most = real(inexact ? kBelow : high);
  Value* inside = builder_.CreateSelect(builder_.CreateFCmpOGT(v, real(low)), v, real(low));
  inside = builder_.CreateSelect(builder_.CreateFCmpOLT(inside, most), inside, most);
  llvm::Type* wide = same_lanes(builder_.getInt32Ty(), v);
  Value* whole = builder_.CreateFPToSI(inside, wide);
  if (inexact) {
    Value* beyond = builder_.CreateFCmpOGE(v, real(0x1p31));
    whole = builder_.CreateSelect(beyond, llvm::ConstantInt::get(wide, INT32_MAX), whole);
  }
  whole = builder_.CreateSelect(builder_.CreateFCmpUNO(v, v), llvm::Constant::getNullValue(wide), whole);
  return builder_.CreateTrunc(whole, same_lanes(elem_type(to), v));
}

Value* Emitter::widen(DType small, Value* v) {
  if (small == DType::f16) return half_to_float(v);
  Value* wide = builder_.CreateZExt(v, same_lanes(builder_.getInt32Ty(), v));
  return builder_.CreateBitCast(builder_.CreateShl(wide, bits(wide, 16)), same_lanes(builder_.getFloatTy(), v));
}

Value* Emitter::narrow(DType small, Value* v) {
  if (small == DType::f16) return float_to_half(v);
  if (target_.limits.bf16_dots_per_cycle > 0 && v->getType()->isVectorTy()) {
    Value* rounded = builder_.CreateFPTrunc(v, same_lanes(builder_.getBFloatTy(), v));
    return builder_.CreateBitCast(rounded, same_lanes(builder_.getInt16Ty(), v));
  }
  Value* f = builder_.CreateBitCast(v, same_lanes(builder_.getInt32Ty(), v));
  Value* top = builder_.CreateLShr(f, bits(f, 16));
  Value* odd = builder_.CreateAnd(top, bits(f, 1));
  Value* rounded = builder_.CreateLShr(builder_.CreateAdd(f, builder_.CreateAdd(odd, bits(f, 0x7fff))), bits(f, 16));
  Value* nan = builder_.CreateOr(top, bits(f, 0x40));
  Value* result = builder_.CreateSelect(builder_.CreateFCmpUNO(v, v), nan, rounded);
  return builder_.CreateTrunc(result, same_lanes(builder_.getInt16Ty(), v));
}

// Without F16C, the exponent is re-biased. A subnormal number is its fraction times 2^-24.
Value* Emitter::half_to_float(Value* v) {
  llvm::Type* f32 = same_lanes(builder_.getFloatTy(), v);
  if (target_.limits.f16_convert) {
    return builder_.CreateFPExt(builder_.CreateBitCast(v, same_lanes(builder_.getHalfTy(), v)), f32);
  }
  Value* h = builder_.CreateZExt(v, same_lanes(builder_.getInt32Ty(), v));
  Value* sign = builder_.CreateShl(builder_.CreateAnd(h, bits(h, 0x8000)), bits(h, 16));
  Value* exponent = builder_.CreateAnd(h, bits(h, 0x7c00));
  Value* fraction = builder_.CreateAnd(h, bits(h, 0x3ff));
  Value* shifted = builder_.CreateShl(builder_.CreateAnd(h, bits(h, 0x7fff)), bits(h, 13));
  Value* normal = builder_.CreateAdd(shifted, bits(h, uint64_t{127 - 15} << 23));
  Value* special = builder_.CreateOr(shifted, bits(h, 0x7f800000));
  Value* scaled = builder_.CreateFMul(builder_.CreateUIToFP(fraction, f32), llvm::ConstantFP::get(f32, 0x1p-24));
  Value* subnormal = builder_.CreateBitCast(scaled, h->getType());
  Value* magnitude = builder_.CreateSelect(builder_.CreateICmpEQ(exponent, bits(h, 0)), subnormal, normal);
  magnitude = builder_.CreateSelect(builder_.CreateICmpEQ(exponent, bits(h, 0x7c00)), special, magnitude);
  return builder_.CreateBitCast(builder_.CreateOr(magnitude, sign), f32);
}

Value* Emitter::float_to_half(Value* v) {
  llvm::Type* i16 = same_lanes(builder_.getInt16Ty(), v);
  if (target_.limits.f16_convert) {
    return builder_.CreateBitCast(builder_.CreateFPTrunc(v, same_lanes(builder_.getHalfTy(), v)), i16);
  }
  llvm::Type* f32 = v->getType();
  Value* f = builder_.CreateBitCast(v, same_lanes(builder_.getInt32Ty(), v));
  Value* magnitude = builder_.CreateAnd(f, bits(f, 0x7fffffff));
  Value* sign = builder_.CreateAnd(builder_.CreateLShr(f, bits(f, 16)), bits(f, 0x8000));
  Value* odd = builder_.CreateAnd(builder_.CreateLShr(magnitude, bits(f, 13)), bits(f, 1));
  constexpr uint64_t kRebias = 0xffffffffU & (0U - (uint32_t{127 - 15} << 23) + 0xfff);
  Value* normal =
      builder_.CreateLShr(builder_.CreateAdd(builder_.CreateAdd(magnitude, odd), bits(f, kRebias)), bits(f, 13));
  // Adding 0.5 gives the last place the value 2^-24, the unit of subnormal halves.
  Value* aligned = builder_.CreateFAdd(builder_.CreateBitCast(magnitude, f32), llvm::ConstantFP::get(f32, 0.5));
  Value* subnormal = builder_.CreateSub(builder_.CreateBitCast(aligned, f->getType()), bits(f, 0x3f000000));
  Value* payload = builder_.CreateAnd(builder_.CreateLShr(magnitude, bits(f, 13)), bits(f, 0x3ff));
  Value* nan = builder_.CreateOr(payload, bits(f, 0x7e00));
  Value* result = builder_.CreateSelect(builder_.CreateICmpULT(magnitude, bits(f, 0x38800000)), subnormal, normal);
  result = builder_.CreateSelect(builder_.CreateICmpUGE(magnitude, bits(f, 0x477ff000)), bits(f, 0x7c00), result);
  result = builder_.CreateSelect(builder_.CreateICmpUGT(magnitude, bits(f, 0x7f800000)), nan, result);
  return builder_.CreateTrunc(builder_.CreateOr(result, sign), i16);
}

Value* Emitter::round_to_odd(Value* v) {
  llvm::Type* f32 = same_lanes(builder_.getFloatTy(), v);
  Value* nearest = builder_.CreateFPTrunc(v, f32);
  Value* back = builder_.CreateFPExt(nearest, v->getType());
  Value* f = builder_.CreateBitCast(nearest, same_lanes(builder_.getInt32Ty(), v));
  Value* up = builder_.CreateFCmpOGT(builder_.CreateUnaryIntrinsic(intrinsic::fabs, back),
                                     builder_.CreateUnaryIntrinsic(intrinsic::fabs, v));
  Value* toward_zero = builder_.CreateSub(f, builder_.CreateZExt(up, f->getType()));
  Value* odd = builder_.CreateOr(toward_zero, bits(f, 1));
  Value* magnitude = builder_.CreateAnd(f, bits(f, 0x7fffffff));
  Value* inexact =
      builder_.CreateAnd(builder_.CreateFCmpONE(back, v), builder_.CreateICmpULT(magnitude, bits(f, 0x7f800000)));
  return builder_.CreateBitCast(builder_.CreateSelect(inexact, odd, f), f32);
}

}  // namespace kilter::codegen
