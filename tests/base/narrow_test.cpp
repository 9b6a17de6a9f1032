// The narrow types: every bit pattern compared with the definition of its format, and rounding between every pair of
// neighbours.
#include "base/narrow.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "base/tensor.h"
#include "error_of.h"

namespace kilter {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr NarrowRounding kUnsaturated{.saturate = false};
constexpr std::array kFloats = {DType::f8e4m3fn,   DType::f8e4m3fnuz, DType::f8e5m2,
                                DType::f8e5m2fnuz, DType::f8e8m0,     DType::f4e2m1};

/// Returns the bit patterns of the finite numbers by their values, without -0.
std::map<double, uint8_t> finite_codes(DType type) {
  std::map<double, uint8_t> codes;
  for (int code = 0; code < 1 << size_bits(type); ++code) {
    const float value = narrow_value(type, static_cast<uint8_t>(code));
    if (std::isfinite(value) && !(value == 0 && std::signbit(value)))
      codes.emplace(static_cast<double>(value), static_cast<uint8_t>(code));
  }
  return codes;
}

TEST(Narrow, EveryNumberHasItsOwnCode) {
  const std::map<DType, size_t> counts = {{DType::f8e4m3fn, 253}, {DType::f8e4m3fnuz, 255},
                                          {DType::f8e5m2, 247},   {DType::f8e5m2fnuz, 255},
                                          {DType::f8e8m0, 255},   {DType::f4e2m1, 15},
                                          {DType::i4, 16},        {DType::u4, 16},
                                          {DType::i2, 4},         {DType::u2, 4}};
  for (const auto& [type, count] : counts) {
    const auto codes = finite_codes(type);
    EXPECT_EQ(codes.size(), count) << name(type);
    for (const auto& [value, code] : codes) EXPECT_EQ(narrow_code(type, value), code) << name(type) << ' ' << value;
  }
}

TEST(Narrow, ValuesFollowTheFormats) {
  const std::vector<float> quarter = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (uint8_t code = 0; code < 8; ++code) {
    EXPECT_EQ(narrow_value(DType::f4e2m1, code), quarter[code]);
    EXPECT_EQ(narrow_value(DType::f4e2m1, code | 8), -quarter[code]);
  }
  EXPECT_EQ(narrow_value(DType::f8e4m3fn, 0x01), 0x1p-9F);
  EXPECT_EQ(narrow_value(DType::f8e4m3fn, 0x08), 0x1p-6F);
  EXPECT_EQ(narrow_value(DType::f8e4m3fn, 0x7e), 448);
  EXPECT_EQ(narrow_value(DType::f8e4m3fnuz, 0x01), 0x1p-10F);
  EXPECT_EQ(narrow_value(DType::f8e4m3fnuz, 0xff), -240);
  EXPECT_EQ(narrow_value(DType::f8e5m2, 0x01), 0x1p-16F);
  EXPECT_EQ(narrow_value(DType::f8e5m2, 0x7b), 57344);
  EXPECT_EQ(narrow_value(DType::f8e5m2, 0xfc), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(narrow_value(DType::f8e5m2fnuz, 0x01), 0x1p-17F);
  EXPECT_EQ(narrow_value(DType::f8e5m2fnuz, 0x7f), 57344);
  EXPECT_EQ(narrow_value(DType::f8e8m0, 0x00), 0x1p-127F);
  EXPECT_EQ(narrow_value(DType::f8e8m0, 0xfe), 0x1p127F);
  EXPECT_EQ(narrow_value(DType::i4, 0x8), -8);
  EXPECT_EQ(narrow_value(DType::i2, 0x3), -1);
  EXPECT_EQ(narrow_value(DType::u4, 0xf7), 7) << "bits beyond the lowest four";
  const std::map<DType, std::vector<int>> nans = {{DType::f8e4m3fn, {0x7f, 0xff}},
                                                  {DType::f8e4m3fnuz, {0x80}},
                                                  {DType::f8e5m2, {0x7d, 0x7e, 0x7f, 0xfd, 0xfe, 0xff}},
                                                  {DType::f8e5m2fnuz, {0x80}},
                                                  {DType::f8e8m0, {0xff}}};
  for (const auto& [type, codes] : nans) {
    for (const int code : codes) EXPECT_TRUE(std::isnan(narrow_value(type, static_cast<uint8_t>(code)))) << name(type);
  }
}

TEST(Narrow, RoundsToNearestWithTiesToEven) {
  for (const DType type : kFloats) {
    if (type == DType::f8e8m0) continue;
    const auto codes = finite_codes(type);
    for (auto low = codes.begin(), high = std::next(low); high != codes.end(); ++low, ++high) {
      const double middle = (low->first + high->first) / 2;
      const auto even = [](uint8_t code) { return code % 2 == 0; };
      EXPECT_NE(even(low->second), even(high->second)) << name(type) << ' ' << middle;
      const double tie = static_cast<double>(narrow_value(type, narrow_code(type, middle)));
      EXPECT_EQ(tie, even(low->second) ? low->first : high->first) << name(type) << ' ' << middle;
      const double below = std::nextafter(middle, -kInfinity), above = std::nextafter(middle, kInfinity);
      EXPECT_EQ(static_cast<double>(narrow_value(type, narrow_code(type, below))), low->first) << name(type);
      EXPECT_EQ(static_cast<double>(narrow_value(type, narrow_code(type, above))), high->first) << name(type);
    }
  }
}

TEST(Narrow, ScalesAreRoundedUpDownOrToTheNearestPower) {
  const auto code = [](double value, ScaleRounding mode) {
    return int{narrow_code(DType::f8e8m0, value, {.scales = mode})} - 127;
  };
  for (int e = -126; e <= 126; ++e) {
    const double power = std::ldexp(1.0, e);
    for (const auto mode : {ScaleRounding::up, ScaleRounding::down, ScaleRounding::nearest})
      EXPECT_EQ(code(power, mode), e);
    EXPECT_EQ(code(power * 1.0001, ScaleRounding::up), e + 1);
    EXPECT_EQ(code(power * 1.9999, ScaleRounding::down), e);
    EXPECT_EQ(code(power * 1.4999, ScaleRounding::nearest), e);
    EXPECT_EQ(code(power * 1.5, ScaleRounding::nearest), e + 1);
  }
  for (const double outside : {0.0, 0x1p-140, kInfinity, 0x1p128}) {
    EXPECT_EQ(narrow_code(DType::f8e8m0, outside), outside < 1 ? 0 : 0xfe);
    EXPECT_EQ(narrow_code(DType::f8e8m0, outside, kUnsaturated), 0xff);
  }
  EXPECT_EQ(narrow_code(DType::f8e8m0, 1.5 * 0x1p127), 0xfe);
  EXPECT_EQ(narrow_code(DType::f8e8m0, 1.5 * 0x1p127, kUnsaturated), 0xff);
  EXPECT_EQ(narrow_code(DType::f8e8m0, kNaN), 0xff);
  EXPECT_EQ(narrow_code(DType::f8e8m0, -1), 0xff);
}

/// The bit patterns in the tables of ONNX's definition of Cast.
TEST(Narrow, SpecialValuesFollowTheStandard) {
  struct Row {
    DType type;
    int minus_zero, nan, minus_nan, largest, beyond, minus_beyond;
  };
  for (const Row& row :
       {Row{DType::f8e4m3fn, 0x80, 0x7f, 0xff, 0x7e, 0x7f, 0xff},
        Row{DType::f8e4m3fnuz, 0, 0x80, 0x80, 0x7f, 0x80, 0x80}, Row{DType::f8e5m2, 0x80, 0x7e, 0xfe, 0x7b, 0x7c, 0xfc},
        Row{DType::f8e5m2fnuz, 0, 0x80, 0x80, 0x7f, 0x80, 0x80}}) {
    EXPECT_EQ(narrow_code(row.type, 0.0), 0);
    EXPECT_EQ(narrow_code(row.type, -0.0), row.minus_zero) << name(row.type);
    EXPECT_EQ(narrow_code(row.type, -1e-300), row.minus_zero) << name(row.type);
    EXPECT_EQ(narrow_code(row.type, kNaN), row.nan) << name(row.type);
    EXPECT_EQ(narrow_code(row.type, -kNaN), row.minus_nan) << name(row.type);
    for (const double outside : {kInfinity, 1e300, 65536.0}) {
      EXPECT_EQ(narrow_code(row.type, outside), row.largest) << name(row.type);
      EXPECT_EQ(narrow_code(row.type, -outside), row.largest | 0x80) << name(row.type);
      EXPECT_EQ(narrow_code(row.type, outside, kUnsaturated), row.beyond) << name(row.type);
      EXPECT_EQ(narrow_code(row.type, -outside, kUnsaturated), row.minus_beyond) << name(row.type);
    }
  }
  EXPECT_EQ(narrow_code(DType::f8e4m3fn, 464, kUnsaturated), 0x7e) << "rounds to 448";
  EXPECT_EQ(narrow_code(DType::f8e4m3fn, 464.001, kUnsaturated), 0x7f);
  EXPECT_EQ(narrow_code(DType::f4e2m1, kInfinity, kUnsaturated), 0x7);
  EXPECT_EQ(narrow_code(DType::f4e2m1, -1e300), 0xf);
  EXPECT_EQ(narrow_code(DType::f4e2m1, kNaN), 0x8);
}

TEST(Narrow, IntegersTruncateAndKeepTheLowestBits) {
  EXPECT_EQ(narrow_code(DType::i4, -1.9), 0xf);
  EXPECT_EQ(narrow_code(DType::i4, 8), 0x8);
  EXPECT_EQ(narrow_code(DType::u2, 5.9), 1);
  EXPECT_EQ(narrow_code(DType::i4, 1e30), 0);
  EXPECT_EQ(narrow_code(DType::u4, -kInfinity), 0);
  EXPECT_EQ(narrow_code(DType::u4, kNaN), 0);
  EXPECT_EQ(narrow_integer_code(DType::i4, std::numeric_limits<int64_t>::max()), 0xf);
  EXPECT_EQ(narrow_integer_code(DType::u2, -3), 1);
  EXPECT_EQ(least_narrow_integer(DType::i2), -2);
  EXPECT_EQ(greatest_narrow_integer(DType::i4), 7);
  EXPECT_EQ(least_narrow_integer(DType::u4), 0);
}

TEST(Narrow, PackedElementsBeginInTheLowestBits) {
  const auto bytes = [](std::vector<uint8_t> values) {
    std::vector<std::byte> out;
    for (const uint8_t v : values) out.push_back(std::byte{v});
    return out;
  };
  struct Row {
    DType type;
    std::vector<std::byte> codes, packed;
  };
  for (const Row& row : {Row{DType::i4, bytes({1, 0xf, 7}), bytes({0xf1, 0x07})},
                         Row{DType::u2, bytes({1, 2, 3, 0, 2}), bytes({0x39, 0x02})},
                         Row{DType::f8e5m2, bytes({0x7c, 1}), bytes({0x7c, 1})}, Row{DType::f4e2m1, {}, {}}}) {
    ASSERT_EQ(packed_size(row.type, static_cast<int64_t>(row.codes.size())), static_cast<int64_t>(row.packed.size()));
    std::vector<std::byte> packed(row.packed.size()), codes(row.codes.size());
    pack_narrow(row.type, row.codes, packed);
    EXPECT_EQ(packed, row.packed) << name(row.type);
    unpack_narrow(row.type, packed, codes);
    EXPECT_EQ(codes, row.codes) << name(row.type);
  }
}

TEST(Narrow, TensorElementsAreRead) {
  Tensor t(DType::i4, {2});
  t.data<uint8_t>()[0] = 0x9, t.data<uint8_t>()[1] = 3;
  EXPECT_EQ(t.bytes(), 2);
  EXPECT_EQ(t.as_int(0), -7);
  EXPECT_EQ(t.as_double(1), 3);
  EXPECT_TRUE(t.widened().same(Tensor::of<int8_t>({2}, {-7, 3})));
  Tensor f(DType::f8e5m2, {1});
  f.data<uint8_t>()[0] = 0x3e;
  EXPECT_TRUE(f.widened().same(Tensor::of<float>({1}, {1.5F})));
}

TEST(Narrow, OtherTypesHaveNoCodes) {
  EXPECT_EQ(error_of([] { narrow_value(DType::f16, 0); }), "element type f16 is not narrow");
  EXPECT_FALSE(is_arithmetic(DType::u2));
  EXPECT_FALSE(is_arithmetic(DType::string));
  EXPECT_TRUE(is_arithmetic(DType::boolean));
}

}  // namespace
}  // namespace kilter
