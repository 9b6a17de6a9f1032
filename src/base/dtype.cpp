#include "base/dtype.h"

#include <array>
#include <cstring>

namespace kilter {
namespace {

struct Row {
  DType type;
  std::string_view name;
  int64_t bytes;
  int64_t bits;
};

constexpr std::array kRows = {
    Row{DType::f32, "f32", 4, 32},
    Row{DType::f64, "f64", 8, 64},
    Row{DType::f16, "f16", 2, 16},
    Row{DType::bf16, "bf16", 2, 16},
    Row{DType::i8, "i8", 1, 8},
    Row{DType::i16, "i16", 2, 16},
    Row{DType::i32, "i32", 4, 32},
    Row{DType::i64, "i64", 8, 64},
    Row{DType::u8, "u8", 1, 8},
    Row{DType::u16, "u16", 2, 16},
    Row{DType::u32, "u32", 4, 32},
    Row{DType::u64, "u64", 8, 64},
    Row{DType::boolean, "bool", 1, 8},
    Row{DType::string, "str", 0, 0},
    Row{DType::f8e4m3fn, "f8e4m3fn", 1, 8},
    Row{DType::f8e4m3fnuz, "f8e4m3fnuz", 1, 8},
    Row{DType::f8e5m2, "f8e5m2", 1, 8},
    Row{DType::f8e5m2fnuz, "f8e5m2fnuz", 1, 8},
    Row{DType::f8e8m0, "f8e8m0", 1, 8},
    Row{DType::f4e2m1, "f4e2m1", 1, 4},
    Row{DType::i4, "i4", 1, 4},
    Row{DType::u4, "u4", 1, 4},
    Row{DType::i2, "i2", 1, 2},
    Row{DType::u2, "u2", 1, 2},
};
static_assert(kRows.size() == static_cast<size_t>(kLastDType) + 1);

const Row& row(DType type) { return kRows[static_cast<size_t>(type)]; }

}  // namespace

int64_t size_bytes(DType type) { return row(type).bytes; }
int64_t size_bits(DType type) { return row(type).bits; }
std::string_view name(DType type) { return row(type).name; }

std::optional<DType> parse_dtype(std::string_view text) {
  for (const Row& r : kRows) {
    if (r.name == text) return r.type;
  }
  return std::nullopt;
}

bool is_float(DType type) {
  return type == DType::f32 || type == DType::f64 || type == DType::f16 || type == DType::bf16;
}
bool is_signed_integer(DType type) {
  return type == DType::i8 || type == DType::i16 || type == DType::i32 || type == DType::i64;
}
bool is_integer(DType type) {
  return is_signed_integer(type) || type == DType::u8 || type == DType::u16 || type == DType::u32 || type == DType::u64;
}
bool is_narrow(DType type) { return type >= DType::f8e4m3fn; }
bool is_arithmetic(DType type) { return type < DType::string; }

Half::Half(float value) {
  const auto f = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (f >> 16) & 0x8000U;
  const uint32_t mag = f & 0x7fffffffU;
  if (mag > 0x7f800000U) {  // NaN: make it quiet
    bits = static_cast<uint16_t>(sign | 0x7e00U | ((mag >> 13) & 0x3ffU));
    return;
  }
  if (mag >= 0x477ff000U) {  // rounds to 65520 or more: infinity
    bits = static_cast<uint16_t>(sign | 0x7c00U);
    return;
  }
  if (mag < 0x38800000U) {  // subnormal half: adding 0.5 aligns the unit in the last place to 2^-24
    const float shifted = std::bit_cast<float>(mag) + 0.5F;
    bits = static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000U));
    return;
  }
  const uint32_t odd = (mag >> 13) & 1U;
  bits = static_cast<uint16_t>(sign | ((mag - 0x38000000U + 0xfffU + odd) >> 13));
}

Half::operator float() const {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fU;
  const uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | (fraction << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

BFloat16::BFloat16(float value) {
  const auto f = std::bit_cast<uint32_t>(value);
  if ((f & 0x7fffffffU) > 0x7f800000U) {
    bits = static_cast<uint16_t>((f >> 16) | 0x40U);
    return;
  }
  bits = static_cast<uint16_t>((f + 0x7fffU + ((f >> 16) & 1U)) >> 16);
}

BFloat16::operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

}  // namespace kilter
