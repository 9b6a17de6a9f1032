// The narrow element types of ONNX: floats of 8 and 4 bits, integers of 4 and 2 bits.
//
// In memory, every element has a byte of its own: its code in the lowest bits, the higher bits 0. In ONNX files,
// elements of 4 and 2 bits are packed, the first in the lowest bits of a byte.
//
//   type         exponent, fraction   largest    special codes
//   f8e4m3fn     4, 3 bits, bias 7    448        7f, ff: NaN
//   f8e4m3fnuz   4, 3 bits, bias 8    240        80: NaN; no -0
//   f8e5m2       5, 2 bits, bias 15   57344      7c, fc: infinity; 7d to 7f, fd to ff: NaN
//   f8e5m2fnuz   5, 2 bits, bias 16   57344      80: NaN; no -0
//   f8e8m0       8, 0 bits, bias 127  2^127      ff: NaN; no sign, no 0: the powers of two from 2^-127 on
//   f4e2m1       2, 1 bits, bias 1    6          none
//   i4, u4, i2, u2: integers, signed ones in two's complement
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace kilter {

/// The direction in which a number between two powers of two is rounded to f8e8m0. nearest: ties are rounded up.
enum class ScaleRounding : uint8_t { up, down, nearest };

/// The choices that ONNX offers for a conversion to a narrow float.
struct NarrowRounding {
  bool saturate = true;                      ///< for types of 8 bits: out of range, the nearest finite number
  ScaleRounding scales = ScaleRounding::up;  ///< for f8e8m0
};

bool is_narrow_integer(DType type);
/// Returns i8 or u8 for narrow integers and f32 for narrow floats: a type that has all their values.
DType widened_type(DType narrow);
/// Returns the least and the greatest value of a narrow integer type.
int64_t least_narrow_integer(DType type);
int64_t greatest_narrow_integer(DType type);

/// Returns the values of all bytes. Bits beyond those of the type do not matter.
std::span<const float, 256> narrow_values(DType type);
inline float narrow_value(DType type, uint8_t code) { return narrow_values(type)[code]; }

/// Returns the code of `value` in a narrow type.
/// Floats: rounds to nearest, ties to even; f8e8m0: see ScaleRounding. With `saturate`, infinity and numbers beyond
/// the largest become the largest; without it, they become infinity in f8e5m2 and NaN in the other types of 8 bits. In
/// f8e8m0, 0 and numbers that round to less than 2^-127 likewise become 2^-127 or NaN, and negative numbers NaN. In
/// f4e2m1, every number out of range becomes the largest, and NaN becomes -0.
/// Integers: truncates toward zero and keeps the lowest bits; 0 for NaN and infinity.
uint8_t narrow_code(DType type, double value, NarrowRounding rounding = {});
/// Returns the code with the lowest bits of an integer.
uint8_t narrow_integer_code(DType type, int64_t value);

/// Returns the bytes that `elems` packed elements occupy.
int64_t packed_size(DType type, int64_t elems);
/// Unpacks packed_size(codes.size()) bytes to one code per byte.
void unpack_narrow(DType type, std::span<const std::byte> packed, std::span<std::byte> codes);
/// Packs codes into packed_size(codes.size()) bytes. Unused bits of the last byte are 0.
void pack_narrow(DType type, std::span<const std::byte> codes, std::span<std::byte> packed);

}  // namespace kilter
