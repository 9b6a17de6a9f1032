#include <algorithm>
#include <bit>
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

/// Half of the distance between f32 numbers of magnitude `most`: the most by which rounding changes a smaller number.
double half_ulp(double most) { return std::ldexp(1, std::ilogb(most) - 24); }

/// The sum in f32, offset so that the numbers from `low` to `high` lie between 2^b and 2^(b+1). There, the bits of an
/// f32 are an integer with 23 - b bits after the point. The offset includes 1/2, so the bits above the point are the
/// rounded sum, and a tie becomes an integer. It also includes a few units in the last place: a sum is doubtful if none
/// but the lowest bits after the point are set. The units exceed the error of the sum: each product is changed by three
/// roundings (of the operand, of the factor, and of itself where a target has no fma), the summand by one, and each
/// partial sum by one.
std::optional<Guarded> guarded(const OpView& op, std::span<const Expr> in) {
  constexpr double kMostRest = 4096;
  constexpr int64_t kMostSpan = 1024;
  const int64_t low = op.node.int_attr("low", 0), high = op.node.int_attr("high", 0);
  const std::optional<double> rest = magnitudes_beside_one(op);
  if (!rest || *rest > kMostRest || high - low >= kMostSpan) return std::nullopt;
  const int whole_bits = std::max(8, static_cast<int>(std::bit_width(static_cast<uint64_t>(high - low))));
  const int bits = 23 - whole_bits;
  const int64_t window = int64_t{1} << whole_bits;
  const Layout& layout = op.outputs[0].layout;
  const int64_t zero = layout.stored == DType::u8 ? layout.zero : -low;  // a byte is the low bits above the point
  if (low + zero < 0 || high + zero >= window) return std::nullopt;

  const auto moved_most = static_cast<double>(2 * window - 1), span = static_cast<double>(window);
  const double range = std::max(std::abs(static_cast<double>(low)), std::abs(static_cast<double>(high))) + 1;
  const auto products = static_cast<double>(in.size() / 2);
  const double error = 3 * 0x1p-24 * (range + 2 * *rest) + half_ulp(moved_most + *rest) +
                       (products - 1) * half_ulp(moved_most + span + range + 2 * *rest) + half_ulp(moved_most) +
                       0x1p-32;
  const double unit = std::ldexp(1, -bits);
  const int doubtful_bits = 1 + static_cast<int>(std::bit_width(static_cast<uint64_t>(error / unit)));
  if (doubtful_bits >= bits) return std::nullopt;

  const double by = static_cast<double>(window + zero) + 0.5 + std::ldexp(unit, doubtful_bits - 1);
  const auto limit = [&](int64_t v) { return imm(DType::f32, static_cast<double>(v) + by); };
  const Expr sum = scalar_weighted_sum_f32(op, in, by);
  const Expr moved = bitcast(DType::i32, min(max(sum, limit(low)), limit(high)));
  const auto whole = [](int64_t v) { return imm_int(DType::i32, v); };
  const int64_t exponent = (127 + whole_bits) * window;
  const Expr rounded = binary(Op::shr, moved, whole(bits)) - whole(exponent + zero);
  const int64_t sure = (int64_t{1} << bits) - (int64_t{1} << doubtful_bits);
  return Guarded{cast(DType::f32, rounded), binary(Op::eq, binary(Op::bit_and, moved, whole(sure)), whole(0))};
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
        "in f32; x_i are f32 or i32, m_i and c f64, which broadcast. NaN gives low. Created by the pass "
        "integer_arithmetic.",
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
