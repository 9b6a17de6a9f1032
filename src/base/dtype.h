// Element types of tensors and the conversions that C++ lacks.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kilter {

enum class DType : uint8_t { f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, boolean, string };

/// Returns the size of one element in bytes; 0 for string, whose elements have no fixed size.
int64_t size_bytes(DType type);
/// Returns "f32", "i64", "bool", "str", ...
std::string_view name(DType type);
std::optional<DType> parse_dtype(std::string_view text);
bool is_float(DType type);
bool is_integer(DType type);  ///< signed or unsigned, bool excluded
bool is_signed_integer(DType type);

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
/// false for string, without calling `f`.
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
    case DType::string:
      return false;
  }
  return false;
}

}  // namespace kilter
