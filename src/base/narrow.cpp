#include "base/narrow.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace kilter {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// A float with a sign, or an integer (`exponent` and `fraction` are then 0). A code is the sign, the exponent and the
/// fraction, from the highest bit on. An exponent of 0 makes a subnormal number.
struct Format {
  DType type;
  int exponent = 0;  ///< bits
  int fraction = 0;  ///< bits
  int bias = 0;
  uint8_t greatest = 0;        ///< the code of the largest finite number, or of the greatest integer
  uint8_t beyond = 0;          ///< the code without sign for larger numbers, if they are not saturated
  uint8_t nan = 0;             ///< the code without sign
  bool negative = true;        ///< integers: signed
  bool unsigned_zero = false;  ///< no -0, and NaN has no sign
};

constexpr std::array kFormats = {
    Format{DType::f8e4m3fn, 4, 3, 7, 0x7e, 0x7f, 0x7f},
    Format{DType::f8e4m3fnuz, 4, 3, 8, 0x7f, 0x80, 0x80, true, true},
    Format{DType::f8e5m2, 5, 2, 15, 0x7b, 0x7c, 0x7e},
    Format{DType::f8e5m2fnuz, 5, 2, 16, 0x7f, 0x80, 0x80, true, true},
    Format{DType::f8e8m0, 8, 0, 127, 0xfe, 0xff, 0xff, false},
    Format{DType::f4e2m1, 2, 1, 1, 0x7, 0x7, 0x8},
    Format{DType::i4, 0, 0, 0, 0x7},
    Format{DType::u4, 0, 0, 0, 0xf, 0, 0, false},
    Format{DType::i2, 0, 0, 0, 0x1},
    Format{DType::u2, 0, 0, 0, 0x3, 0, 0, false},
};

size_t index_of(DType type) {
  require(is_narrow(type), "element type {} is not narrow", name(type));
  return static_cast<size_t>(type) - static_cast<size_t>(kFormats.front().type);
}

const Format& format_of(DType type) { return kFormats[index_of(type)]; }

unsigned mask_of(DType type) { return (1U << size_bits(type)) - 1; }
unsigned sign_of(DType type) { return 1U << (size_bits(type) - 1); }

float integer_value(const Format& f, unsigned code) {
  const auto value = static_cast<float>(code);
  return f.negative && (code & sign_of(f.type)) != 0 ? value - std::ldexp(1.0F, static_cast<int>(size_bits(f.type)))
                                                     : value;
}

float float_value(const Format& f, unsigned code) {
  if (f.type == DType::f8e8m0) return code == f.nan ? kNaN : std::ldexp(1.0F, static_cast<int>(code) - f.bias);
  const unsigned sign = code & sign_of(f.type);
  const unsigned magnitude = code & ~sign;
  if (f.unsigned_zero && code == f.nan) return kNaN;
  if (magnitude > f.greatest) {
    if (magnitude != f.beyond || f.beyond == f.nan) return kNaN;
    return sign != 0 ? -kInfinity : kInfinity;
  }
  const int exponent = static_cast<int>(magnitude >> f.fraction);
  const unsigned hidden = exponent == 0 ? 0 : 1U << f.fraction;
  const unsigned digits = (magnitude & ((1U << f.fraction) - 1)) | hidden;
  const float value = std::ldexp(static_cast<float>(digits), std::max(exponent, 1) - f.bias - f.fraction);
  return sign != 0 ? -value : value;
}

using Values = std::array<std::array<float, 256>, kFormats.size()>;

Values all_values() {
  Values values{};
  for (size_t k = 0; k < kFormats.size(); ++k) {
    const Format& f = kFormats[k];
    for (unsigned byte = 0; byte < 256; ++byte) {
      const unsigned code = byte & mask_of(f.type);
      values[k][byte] = f.exponent == 0 ? integer_value(f, code) : float_value(f, code);
    }
  }
  return values;
}

uint8_t scale_code(const Format& f, double value, NarrowRounding rounding) {
  const uint8_t above = rounding.saturate ? f.greatest : f.nan;
  const uint8_t below = rounding.saturate ? 0 : f.nan;
  if (std::isnan(value) || value < 0) return f.nan;
  if (value == 0) return below;
  if (std::isinf(value)) return above;
  int exponent = std::ilogb(value);
  const double digits = std::ldexp(value, -exponent);
  const bool raised = (rounding.scales == ScaleRounding::up && digits > 1) ||
                      (rounding.scales == ScaleRounding::nearest && digits >= 1.5);
  exponent += (raised ? 1 : 0) + f.bias;
  if (exponent > f.greatest) return above;
  return exponent < 0 ? below : static_cast<uint8_t>(exponent);
}

uint8_t float_code(const Format& f, double value, bool saturate) {
  const unsigned sign = std::signbit(value) ? sign_of(f.type) : 0;
  if (std::isnan(value)) return static_cast<uint8_t>(f.nan | sign);
  constexpr int kBias = 1023, kDigits = 52;  // of f64
  const double magnitude = std::abs(value);
  const auto own = static_cast<int>(std::bit_cast<uint64_t>(magnitude) >> kDigits) - kBias;
  const int exponent = std::max(own, 1 - f.bias);
  unsigned code = 256;  // greater than the codes of every format
  if (exponent < 1 << f.exponent) {
    // At 2^52 steps of the format, neighbouring f64 numbers are a step apart, so the addition rounds to whole steps.
    const auto many = std::bit_cast<double>(static_cast<uint64_t>(kBias + kDigits + exponent - f.fraction) << kDigits);
    const uint64_t steps = std::bit_cast<uint64_t>(magnitude + many) - std::bit_cast<uint64_t>(many);
    code = static_cast<unsigned>(steps) + (static_cast<unsigned>(exponent + f.bias - 1) << f.fraction);
  }
  if (code > f.greatest) code = saturate ? f.greatest : f.beyond;
  if (code == 0 && f.unsigned_zero) return 0;
  return static_cast<uint8_t>(code | sign);
}

}  // namespace

bool is_narrow_integer(DType type) { return is_narrow(type) && format_of(type).exponent == 0; }

DType widened_type(DType narrow) {
  const Format& f = format_of(narrow);
  if (f.exponent != 0) return DType::f32;
  return f.negative ? DType::i8 : DType::u8;
}

int64_t greatest_narrow_integer(DType type) { return format_of(type).greatest; }

int64_t least_narrow_integer(DType type) {
  const Format& f = format_of(type);
  return f.negative ? -int64_t{f.greatest} - 1 : 0;
}

std::span<const float, 256> narrow_values(DType type) {
  static const Values kValues = all_values();
  return kValues[index_of(type)];
}

uint8_t narrow_code(DType type, double value, NarrowRounding rounding) {
  const Format& f = format_of(type);
  if (f.exponent != 0) {
    return type == DType::f8e8m0 ? scale_code(f, value, rounding) : float_code(f, value, rounding.saturate);
  }
  if (!std::isfinite(value)) return 0;
  return narrow_integer_code(type, static_cast<int64_t>(std::fmod(std::trunc(value), 256.0)));
}

uint8_t narrow_integer_code(DType type, int64_t value) {
  return static_cast<uint8_t>(static_cast<uint64_t>(value) & mask_of(type));
}

int64_t packed_size(DType type, int64_t elems) {
  const int64_t per_byte = 8 / size_bits(type);
  return elems / per_byte + (elems % per_byte != 0 ? 1 : 0);
}

void unpack_narrow(DType type, std::span<const std::byte> packed, std::span<std::byte> codes) {
  const auto bits = static_cast<size_t>(size_bits(type)), per_byte = 8 / bits;
  const auto mask = static_cast<std::byte>(mask_of(type));
  size_t i = 0;
  for (const std::byte byte : packed) {
    for (size_t k = 0; k < per_byte && i < codes.size(); ++k, ++i) codes[i] = byte >> (k * bits) & mask;
  }
}

void pack_narrow(DType type, std::span<const std::byte> codes, std::span<std::byte> packed) {
  const auto bits = static_cast<size_t>(size_bits(type)), per_byte = 8 / bits;
  const auto mask = static_cast<std::byte>(mask_of(type));
  std::ranges::fill(packed, std::byte{0});
  for (size_t i = 0; i < codes.size(); ++i) packed[i / per_byte] |= (codes[i] & mask) << (i % per_byte * bits);
}

}  // namespace kilter
