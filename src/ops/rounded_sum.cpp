#include <algorithm>
#include <cmath>

#include "ops/support/elementwise.h"
#include "ops/support/weighted_sum.h"

namespace kilter {
namespace {

/// Sums are rounded to multiples of 2^-32 before they are rounded to integers, so that a sum which is halfway between
/// two integers counts as such in spite of the rounding errors of its factors. This constant plus a number below 2^19
/// has its last bit at 2^-32.
constexpr double kSnap = 0x1.8p20;
void infer(InferContext& ctx) {
  infer_weighted_sum(ctx);
  const int64_t low = ctx.node.int_attr("low", 0), high = ctx.node.int_attr("high", 0);
  constexpr int64_t kMost = 1 << 18;
  if (low > high || low < -kMost || high > kMost)
    ctx.error(fmt::format("the range {} to {} is not ascending or exceeds {} in magnitude", low, high, kMost));
}

void reference(ReferenceContext& ctx) {
  const auto low = static_cast<double>(ctx.node.int_attr("low", 0));
  const auto high = static_cast<double>(ctx.node.int_attr("high", 0));
  std::vector<double> sums = weighted_sums(ctx);
  for (double& sum : sums) {
    const double inside = std::isnan(sum) ? low : std::min(std::max(sum, low), high);
    const volatile double snapped = inside + kSnap;
    sum = std::nearbyint(snapped - kSnap);
  }
  store_doubles(ctx.out(), sums);
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  const Expr sum = scalar_weighted_sum(op, in);
  const Expr low = imm(DType::f64, static_cast<double>(op.node.int_attr("low", 0)));
  const Expr high = imm(DType::f64, static_cast<double>(op.node.int_attr("high", 0)));
  const Expr inside = min(max(sum, low), high);
  const Expr whole = inside + imm(DType::f64, kSnap) + imm(DType::f64, kWhole - kSnap);
  return integer_in_low_bits(whole);
}

/// Sums of f32. With k products, their error is at most (k + 2) 2^-24 times the magnitudes of the clamped sum and,
/// twice, of magnitudes_beside_one(): each factor, summand, operand and partial sum is rounded. They round to the same
/// integers as exact sums unless they are as close to a tie.
std::optional<Guarded> guarded(const OpView& op, std::span<const Expr> in) {
  constexpr double kMostRest = 4096, kMostRange = 512, kWholeF32 = 0x1.8p23;
  const auto low = static_cast<double>(op.node.int_attr("low", 0));
  const auto high = static_cast<double>(op.node.int_attr("high", 0));
  const std::optional<double> rest = magnitudes_beside_one(op);
  const double range = std::max(std::abs(low), std::abs(high)) + 1;
  if (!rest || *rest > kMostRest || range > kMostRange) return std::nullopt;
  const Expr inside = min(max(scalar_weighted_sum_f32(op, in), imm(DType::f32, low)), imm(DType::f32, high));
  const auto products = static_cast<double>(in.size() / 2);
  const double band = (products + 2) * 0x1p-24 * (range + 2 * *rest) + 0x1p-23;
  const Expr whole = imm(DType::f32, kWholeF32);
  const Expr rounded = inside + whole - whole;
  const Expr distance = unary(Op::abs, inside - rounded);
  return Guarded{rounded, binary(Op::gt, distance, imm(DType::f32, 0.5 - band))};
}

}  // namespace

KILTER_OP(RoundedSum){
    .name = "RoundedSum",
    .domain = "kilter",
    .family = Family::map,
    .min_inputs = 3,
    .max_inputs = -1,
    .attrs = {{"low", "int", "required"}, {"high", "int", "required"}},
    .summary =
        "y = x_0 * m_0 + x_1 * m_1 + ... + c, clamped to low..high and rounded to the nearest integer, ties to even, "
        "in "
        "f32; x_i are f32 or i32, m_i and c f64, which broadcast. NaN gives low. Made by the pass integer_arithmetic.",
    .infer = infer,
    .reference = reference,
    .scalar = scalar,
    .guarded = guarded,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"i32[2,3,5] f64[3,1] f64[3,1] | low=-128 high=127",
              "f32[2,3,5] f64[]=25 f32[2,3,5] f64[]=1 f64[]=0 | low=-3 high=252",
              "i32[9]:0,1,2,3,4,5,-1,-3,1000000 f64[]=0.5 f64[]=0 | low=-255 high=255",
              "f32[5]:nan,inf,-inf,0.5,1.5 f64[]=1 f64[]=0 | low=0 high=255",
              "i32[6]:3,9,15,21,-3,-9 f64[]=0.16666666666666666 f64[]=0 | low=-128 high=127"},
};

}  // namespace kilter
