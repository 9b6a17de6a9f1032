// Element types of tensors and the conversions that C++ lacks.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kilter {

/// The types from f8e4m3fn on are the narrow types (see narrow.h).
enum class DType : uint8_t {
  f32,
  f64,
  f16,
  bf16,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  boolean,
  string,
  f8e4m3fn,
  f8e4m3fnuz,
  f8e5m2,
  f8e5m2fnuz,
  f8e8m0,
  f4e2m1,
  i4,
  u4,
  i2,
  u2
};
constexpr DType kLastDType = DType::u2;

/// Returns the size of one element in memory in bytes; 0 for string, whose elements have no fixed size.
int64_t size_bytes(DType type);
/// Returns the number of bits that represent one element: fewer than 8 * size_bytes() for narrow types of 2 and 4 bits.
int64_t size_bits(DType type);
/// Returns "f32", "i64", "bool", "str", "f8e4m3fn", ...
std::string_view name(DType type);
std::optional<DType> parse_dtype(std::string_view text);
bool is_float(DType type);    ///< f32, f64, f16 or bf16
bool is_integer(DType type);  ///< signed or unsigned, of 8 bits or more; bool excluded
bool is_signed_integer(DType type);
/// Returns whether elements are numbers that are stored and converted, but that no kernel computes with.
bool is_narrow(DType type);
/// Returns whether kernels compute with elements of the type: it is neither string nor narrow.
bool is_arithmetic(DType type);

/// IEEE binary16 stored as its bits. Conversion rounds to nearest even.
struct Half {
  uint16_t bits = 0;
  Half() = default;
  explicit Half(float value);
  explicit operator float() const;
};

/// bfloat16 stored as its bits. Conversion rounds to nearest even; NaN stays NaN.
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value);
  explicit operator float() const;
};

/// Maps the C++ type of one element to its DType.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<Half> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::i8;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType value = DType::i16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<uint16_t> {
  static constexpr DType value = DType::u16;
};
template <>
struct DTypeOf<uint32_t> {
  static constexpr DType value = DType::u32;
};
template <>
struct DTypeOf<uint64_t> {
  static constexpr DType value = DType::u64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};

/// Calls `f` with a value-initialised object of the element's C++ type (bool for boolean) and returns true. Returns
/// false for string and for narrow types, without calling `f`.
template <class F>
bool visit_dtype(DType type, F&& f) {
  switch (type) {
    case DType::f32:
      f(float{});
      return true;
    case DType::f64:
      f(double{});
      return true;
    case DType::f16:
      f(Half{});
      return true;
    case DType::bf16:
      f(BFloat16{});
      return true;
    case DType::i8:
      f(int8_t{});
      return true;
    case DType::i16:
      f(int16_t{});
      return true;
    case DType::i32:
      f(int32_t{});
      return true;
    case DType::i64:
      f(int64_t{});
      return true;
    case DType::u8:
      f(uint8_t{});
      return true;
    case DType::u16:
      f(uint16_t{});
      return true;
    case DType::u32:
      f(uint32_t{});
      return true;
    case DType::u64:
      f(uint64_t{});
      return true;
    case DType::boolean:
      f(bool{});
      return true;
    default:
      return false;
  }
}

}  // namespace kilter
