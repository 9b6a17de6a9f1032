// Constructors of expressions: type checks, constant folding, identities; and the arithmetic behind them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "../base/error_of.h"
#include "loop/eval.h"
#include "loop/loop.h"
#include "loop/text.h"

namespace kilter {
namespace {

LoopFunc with_vars() {
  LoopFunc f;
  for (int32_t id = 0; id < 5; ++id)
    f.body.push_back(std::make_shared<const StmtNode>(StmtNode{.kind = StmtKind::let, .id = id}));
  f.vars = {{"i", {DType::i64, 1}},
            {"j", {DType::i64, 1}},
            {"a", {DType::f32, 1}},
            {"v", {DType::f32, 8}},
            {"n", {DType::i32, 1}}};
  f.buffers = {{.name = "x", .elems = 64}};
  return f;
}
const Expr kI = var_expr({DType::i64, 1}, 0);
const Expr kJ = var_expr({DType::i64, 1}, 1);
const Expr kA = var_expr({DType::f32, 1}, 2);
const Expr kV = var_expr({DType::f32, 8}, 3);
const Expr kN = var_expr({DType::i32, 1}, 4);

std::string shown(const Expr& e) { return loop_text::expression(with_vars(), e); }

TEST(Expr, ConstantsFold) {
  EXPECT_EQ(shown(Expr(3) * 4 + 5), "17");
  EXPECT_EQ(shown(imm(DType::f32, 0.1) + imm(DType::f32, 0.2)), "0.3:f32");
  EXPECT_EQ(shown(imm(DType::f64, 0.1) + imm(DType::f64, 0.2)), "0.30000000000000004:f64");
  EXPECT_EQ(shown(imm_int(DType::u8, 200) + imm_int(DType::u8, 100)), "44:u8");
  EXPECT_EQ(shown(imm_int(DType::i8, 100, 4) * imm_int(DType::i8, 2, 4)), "-56:i8x4");
  EXPECT_EQ(shown(imm_int(DType::u64, -1) / imm_int(DType::u64, 2)), "9223372036854775807:u64");
  EXPECT_EQ(shown(binary(Op::lt, Expr(2), Expr(3))), "1:bool");
  EXPECT_EQ(shown(unary(Op::sqrt, imm(DType::f32, 2))), "1.4142135:f32");
  EXPECT_EQ(shown(fma(imm(DType::f32, 2), imm(DType::f32, 3), imm(DType::f32, 4))), "10:f32");
  EXPECT_EQ(shown(select(imm_int(DType::boolean, 1), kI, kJ)), "i");
  EXPECT_EQ(shown(bitcast(DType::i32, imm(DType::f32, 1))), "1065353216:i32");
  EXPECT_EQ(shown(lane_reduce(Op::max, imm(DType::f32, 3, 8))), "3:f32");
}

TEST(Expr, IntegerIdentities) {
  EXPECT_EQ(shown(kI + 0), "i");
  EXPECT_EQ(shown(0 + kI), "i");
  EXPECT_EQ(shown(kI * 1), "i");
  EXPECT_EQ(shown(kI * 0), "0");
  EXPECT_EQ(shown(kI - kI), "0");
  EXPECT_EQ(shown(2 + kI), "i + 2");
  EXPECT_EQ(shown((kI + 2) + 3), "i + 5");
  EXPECT_EQ(shown((kI * 2) * 3), "i * 6");
  EXPECT_EQ(shown(kI - 4), "i + -4");
  EXPECT_EQ(shown((kI + 3) - (kJ + 1)), "i - j + 2");
  EXPECT_EQ(shown(kI + (kJ + 3)), "i + j + 3");
  EXPECT_EQ(shown(min(min(kI, 7), 5)), "min(i, 5)");
  EXPECT_EQ(shown(kI / 1), "i");
  EXPECT_EQ(shown(kI % 1), "0");
  EXPECT_EQ(shown(kI / 0), "0");
}

TEST(Expr, FloatsKeepTheirSpecialValues) {
  EXPECT_EQ(shown(kA + imm(DType::f32, 0)), "a + 0:f32") << "-0 + 0 is +0";
  EXPECT_EQ(shown(kA * imm(DType::f32, 0)), "a * 0:f32") << "NaN stays";
  EXPECT_EQ(shown(kA - kA), "a - a");
  EXPECT_EQ(shown(kA * imm(DType::f32, 1)), "a");
  EXPECT_EQ(shown(kA + imm(DType::f32, -0.0)), "a");
}

TEST(Expr, VectorsAndRamps) {
  EXPECT_EQ(shown(broadcast(kA, 8) * broadcast(kA, 8)), "broadcast(a * a, 8)");
  EXPECT_EQ(shown(kV + kA), "v + broadcast(a, 8)") << "a scalar operand is broadcast";
  EXPECT_EQ(shown(ramp(kI, 1, 8) + broadcast(kJ, 8)), "ramp(i + j, 1, 8)");
  EXPECT_EQ(shown(broadcast(kJ, 8) - ramp(kI, 2, 8)), "ramp(j - i, -2, 8)");
  EXPECT_EQ(shown(ramp(kI, 2, 4) * imm_int(DType::i64, 3, 4)), "ramp(i * 3, 6, 4)");
  EXPECT_EQ(shown(cast(DType::i32, ramp(kI, 1, 4))), "ramp(i32(i), 1:i32, 4)");
  EXPECT_EQ(shown(gather_expr(DType::f32, 0, ramp(kI, 3, 4))), "x[i, lanes 4, stride 3]");
  EXPECT_EQ(shown(gather_expr(DType::f32, 0, broadcast(kI, 4))), "broadcast(x[i], 4)");
  EXPECT_EQ(shown(load_expr(DType::f32, 0, kI, 4, 1, imm_int(DType::boolean, 0, 4))), "0:f32x4");
  EXPECT_EQ(shown(first_lanes(kI, 4)), "ramp(0:i32, 1:i32, 4) < broadcast(i32(min(i, 4)), 4)");
  EXPECT_EQ(shown(first_lanes_count(first_lanes(kI, 4))), "i32(min(i, 4))");
  EXPECT_EQ(shown(first_lanes(9, 4)), "1:boolx4");
  EXPECT_EQ(shown(shuffle(kV, kV + kA, {0, 8, 1, 9})), "shuffle(v, v + broadcast(a, 8), 0, 8, 1, 9)");
  EXPECT_EQ(shown(shuffle(kV, kV + kA, {0, 1, 2, 3, 4, 5, 6, 7})), "v") << "all of the first";
  EXPECT_EQ(shown(shuffle(kV + kA, kV, {8, 9, 10, 11, 12, 13, 14, 15})), "v") << "all of the second";
  const Expr same = broadcast(kA, 8);
  EXPECT_EQ(shown(shuffle(same, same, {3, 1})), "broadcast(a, 2)");
  EXPECT_FALSE(first_lanes_count(binary(Op::lt, ramp(kN, kN, 4), broadcast(kN, 4))).defined());
}

TEST(Expr, TypeErrors) {
  EXPECT_EQ(error_of([] { kI + kA; }), "loop IR: add of i64 and f32: the element types differ");
  EXPECT_EQ(error_of([] { kV + imm(DType::f32, 0, 4); }), "loop IR: add of 8 and 4 lanes");
  EXPECT_EQ(error_of([] { unary(Op::exp, kI); }), "loop IR: exp is not defined for i64");
  EXPECT_EQ(error_of([] { binary(Op::shl, kA, kA); }), "loop IR: shl is not defined for f32");
  EXPECT_EQ(error_of([] { select(kA, kI, kI); }), "loop IR: the condition of select has type f32");
  EXPECT_EQ(error_of([] { bitcast(DType::f64, kA); }), "loop IR: bitcast of f32 to f64: the sizes differ");
  EXPECT_EQ(error_of([] { broadcast(kV, 4); }), "loop IR: broadcast of f32x8 to 4 lanes");
  EXPECT_EQ(error_of([] { load_expr(DType::f32, 0, kN); }), "loop IR: the index of a load has type i32, expected i64");
  EXPECT_EQ(error_of([] { lane_reduce(Op::sub, kV); }), "loop IR: lane_reduce by sub");
  EXPECT_EQ(error_of([] { shuffle(kV, kA, {0}); }), "loop IR: shuffle of f32x8 and f32: expected two of the same type");
  EXPECT_EQ(error_of([] { shuffle(kV, kV, {0, 16}); }), "loop IR: shuffle picks lane 16, expected 0 to 15");
  EXPECT_EQ(error_of([] { kI + Expr(); }), "loop IR: an operand of add is undefined");
}

template <class T>
T binary_of(Op op, T a, T b) {
  alignas(8) T out{};
  eval::binary(op, DTypeOf<T>::value, 1, reinterpret_cast<std::byte*>(&a), reinterpret_cast<std::byte*>(&b),
               reinterpret_cast<std::byte*>(&out));
  return out;
}
template <class To, class From>
To cast_of(From a) {
  alignas(8) To out{};
  eval::cast(DTypeOf<From>::value, DTypeOf<To>::value, 1, reinterpret_cast<std::byte*>(&a),
             reinterpret_cast<std::byte*>(&out));
  return out;
}

TEST(Eval, IntegersWrapAndDivideSafely) {
  constexpr int32_t kLowest = std::numeric_limits<int32_t>::min();
  EXPECT_EQ(binary_of<int32_t>(Op::div, 7, 0), 0);
  EXPECT_EQ(binary_of<int32_t>(Op::mod, 7, 0), 0);
  EXPECT_EQ(binary_of<int32_t>(Op::div, kLowest, -1), kLowest);
  EXPECT_EQ(binary_of<int32_t>(Op::mod, kLowest, -1), 0);
  EXPECT_EQ(binary_of<int32_t>(Op::div, -7, 2), -3);
  EXPECT_EQ(binary_of<int32_t>(Op::mod, -7, 2), -1);
  EXPECT_EQ(binary_of<int32_t>(Op::add, kLowest, -1), std::numeric_limits<int32_t>::max());
  EXPECT_EQ(binary_of<uint8_t>(Op::shl, 1, 8), 0);
  EXPECT_EQ(binary_of<int8_t>(Op::shr, -128, 9), -1);
  EXPECT_EQ(binary_of<int8_t>(Op::shr, -128, -1), -1);
  EXPECT_EQ(binary_of<uint64_t>(Op::max, ~uint64_t{0}, 1), ~uint64_t{0});
}

TEST(Eval, MinAndMaxWithNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(binary_of<float>(Op::min, nan, 1), 1) << "b, as in a < b ? a : b";
  EXPECT_TRUE(std::isnan(binary_of<float>(Op::min, 1, nan)));
  EXPECT_EQ(binary_of<float>(Op::max, nan, 1), 1);
}

TEST(Eval, Casts) {
  EXPECT_EQ((cast_of<int8_t, float>(300.5F)), 127);
  EXPECT_EQ((cast_of<uint8_t, float>(-3.0F)), 0);
  EXPECT_EQ((cast_of<int32_t, float>(-2.9F)), -2);
  EXPECT_EQ((cast_of<int64_t, double>(1e30)), std::numeric_limits<int64_t>::max());
  EXPECT_EQ((cast_of<int32_t, float>(std::nanf(""))), 0);
  EXPECT_EQ((cast_of<int8_t, int32_t>(300)), 44);
  EXPECT_EQ((cast_of<bool, float>(-0.0F)), false);
  EXPECT_EQ((cast_of<bool, float>(std::nanf(""))), true);
  EXPECT_EQ((cast_of<float, bool>(true)), 1.0F);
  EXPECT_EQ((cast_of<uint64_t, float>(1e19F)), 9999999980506447872ULL);
  // 1 + 2^-11 is halfway between two f16 numbers, and adding 2^-40 breaks the tie upwards. A cast must not round to f32
  // first.
  EXPECT_EQ((cast_of<Half, double>(1.0 + 0x1p-11)).bits, 0x3c00);
  EXPECT_EQ((cast_of<Half, double>(1.0 + 0x1p-11 + 0x1p-40)).bits, 0x3c01);
  EXPECT_EQ((cast_of<BFloat16, double>(1.0 + 0x1p-8 - 0x1p-40)).bits, 0x3f80);
}

TEST(Eval, LaneReduceAddsHalves) {
  // Added in order in f32, ones are lost next to 2^25. Adding one half of the lanes to the other pairs them first.
  float lanes[8] = {0x1p25F, 1, 1, 1, -0x1p25F, 1, 1, 1};
  float out = 0;
  eval::lane_reduce(Op::add, DType::f32, 8, reinterpret_cast<std::byte*>(lanes), reinterpret_cast<std::byte*>(&out));
  EXPECT_EQ(out, 6.0F);
}

}  // namespace
}  // namespace kilter
