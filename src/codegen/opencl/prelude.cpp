#include "codegen/opencl/source.h"

namespace kilter::codegen {

// The loop IR's meaning of operations (doc/loop_ir.md) where OpenCL C has another, or none.
const std::string_view kOpenClPrelude = R"cl(
#pragma OPENCL FP_CONTRACT OFF

#define KILTER_UNSIGNED(T, BITS)                                                 \
  T divide_##T(T a, T b) { return b == 0 ? 0 : a / b; }                          \
  T modulo_##T(T a, T b) { return b == 0 ? 0 : a % b; }                          \
  T shift_left_##T(T a, T b) { return b < BITS ? (T)(a << b) : (T)0; }           \
  T shift_right_##T(T a, T b) { return b < BITS ? (T)(a >> b) : (T)0; }
KILTER_UNSIGNED(uchar, 8)
KILTER_UNSIGNED(ushort, 16)
KILTER_UNSIGNED(uint, 32)
KILTER_UNSIGNED(ulong, 64)

#define KILTER_SIGNED(T, U, BITS)                                                                      \
  T divide_##T(T a, T b) { return b == 0 ? (T)0 : b == -1 ? (T)((U)0 - (U)a) : (T)(a / b); }           \
  T modulo_##T(T a, T b) { return b == 0 || b == -1 ? (T)0 : (T)(a % b); }                             \
  T shift_left_##T(T a, T b) { return (U)b < BITS ? (T)((U)a << b) : (T)0; }                           \
  T shift_right_##T(T a, T b) { return (U)b < BITS ? (T)(a >> b) : a < 0 ? (T)-1 : (T)0; }             \
  T absolute_##T(T a) { return a < 0 ? (T)((U)0 - (U)a) : a; }
KILTER_SIGNED(char, uchar, 8)
KILTER_SIGNED(short, ushort, 16)
KILTER_SIGNED(int, uint, 32)
KILTER_SIGNED(long, ulong, 64)

#define KILTER_TO_INTEGER(F, T) \
  T F##_to_##T(F a) { return isnan(a) ? (T)0 : convert_##T##_sat_rtz(a); }
#define KILTER_EXTREMES(V)                           \
  V least_##V(V a, V b) { return a < b ? a : b; }     \
  V greatest_##V(V a, V b) { return a > b ? a : b; }
#define KILTER_FLOAT(F)                               \
  KILTER_EXTREMES(F)                                  \
  KILTER_EXTREMES(F##2)                               \
  KILTER_EXTREMES(F##3)                               \
  KILTER_EXTREMES(F##4)                               \
  KILTER_EXTREMES(F##8)                               \
  KILTER_EXTREMES(F##16)                              \
  KILTER_TO_INTEGER(F, char)                          \
  KILTER_TO_INTEGER(F, uchar)                         \
  KILTER_TO_INTEGER(F, short)                         \
  KILTER_TO_INTEGER(F, ushort)                        \
  KILTER_TO_INTEGER(F, int)                           \
  KILTER_TO_INTEGER(F, uint)                          \
  KILTER_TO_INTEGER(F, long)                          \
  KILTER_TO_INTEGER(F, ulong)
KILTER_FLOAT(float)

float from_bf16(ushort a) { return as_float((uint)a << 16); }
ushort to_bf16(float a) {
  const uint bits = as_uint(a);
  if (isnan(a)) return (ushort)(bits >> 16 | 0x40);
  return (ushort)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
float from_f16(ushort a) {
  const uint sign = (uint)(a & 0x8000) << 16, exponent = a >> 10 & 31, mantissa = a & 0x3ff;
  if (exponent == 31) return as_float(sign | 0x7f800000 | mantissa << 13);
  if (exponent != 0) return as_float(sign | (exponent + 112) << 23 | mantissa << 13);
  return as_float(sign | as_uint((float)mantissa * 0x1p-24f));
}
ushort to_f16(float a) {
  const uint bits = as_uint(a), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return (ushort)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x477ff000) return (ushort)(sign | 0x7c00);
  if (magnitude >= 0x38800000) {
    return (ushort)(sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
  }
  return (ushort)(sign | as_uint(as_float(magnitude) + 0.5f) - 0x3f000000);
}
ushort fma_bf16(ushort a, ushort b, ushort c) { return to_bf16(fma(from_bf16(a), from_bf16(b), from_bf16(c))); }
ushort fma_f16(ushort a, ushort b, ushort c) { return to_f16(fma(from_f16(a), from_f16(b), from_f16(c))); }

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
KILTER_FLOAT(double)
float to_odd(double a) {
  const float near = (float)a;
  if (isnan(a) || isinf(near) || (double)near == a) return near;
  const uint bits = as_uint(near);
  const uint toward_zero = fabs((double)near) > fabs(a) ? bits - 1 : bits;
  return as_float(toward_zero | 1);
}
ushort double_to_bf16(double a) { return to_bf16(to_odd(a)); }
ushort double_to_f16(double a) { return to_f16(to_odd(a)); }
#endif
)cl";

const std::string_view kOpenClHalo = R"cl(
kernel void kilter_halo(global uchar* base, long plane_bytes, long rows, long row_bytes, long top, long bottom, long left,
                        long right, uchar value) {
  global uchar* row = base + get_global_id(2) * plane_bytes + get_global_id(1) * row_bytes;
  const long r = get_global_id(1), b = get_global_id(0);
  if (r < top || r >= rows - bottom || b < left || b >= row_bytes - right) row[b] = value;
}
)cl";

}  // namespace kilter::codegen
