#include <array>

#include "ops/support/elementwise.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

constexpr double kInvSqrt2 = 0.70710678118654752440;
constexpr double kSqrt2OverPi = 0.79788456080286535588;
constexpr double kCubic = 0.044715;

bool by_tanh(const Node& node) {
  const std::string approximate = node.string_attr("approximate", "none");
  if (approximate == "tanh") return true;
  if (approximate == "none") return false;
  node_error(node, "attribute approximate is '" + approximate + "'; legal values are 'none' and 'tanh'");
}

void infer(InferContext& ctx) {
  by_tanh(ctx.node);
  infer_same_of<Floats>(ctx);
}

void reference(ReferenceContext& ctx) {
  if (by_tanh(ctx.node)) {
    reference_unary<Floats>(ctx, [](auto x) {
      const auto v = static_cast<double>(x);
      return 0.5 * v * (1 + std::tanh(kSqrt2OverPi * (v + kCubic * v * v * v)));
    });
  } else {
    reference_unary<Floats>(ctx, [](auto x) {
      const auto v = static_cast<double>(x);
      return 0.5 * v * (1 + std::erf(v * kInvSqrt2));
    });
  }
}

// (1 + tanh(u)) / 2 is sigmoid(2 u), which has no cancellation at negative u.
Expr gelu_tanh(const Expr& x) {
  const Expr u = x * (like(x, 2 * kSqrt2OverPi) + x * x * like(x, 2 * kSqrt2OverPi * kCubic));
  return x * unary(Op::sigmoid, u);
}

// x P(X <= x) is max(0, x) - |x| erfc(|x| / sqrt 2) / 2, which has no cancellation at negative x. erfc is the
// exponential of a polynomial, whose error is 2^-26 of erfc(0). It is 0 in f32 beyond the limit of |x|.
constexpr double kLargest = 13.1;
constexpr std::array kLogErfc = {-0.7978869080543518,   -0.31828629970550537,    -0.03641918674111366,
                                 0.004927259869873524,  -0.00010135620686924085, -0.00013913751172367483,
                                 3.514775380608626e-05, -4.191350853943732e-06,  2.490683073119726e-07,
                                 -5.816654269352739e-09};  // log(erfc(x / sqrt 2)) / x

Expr gelu(const Expr& x) {
  const Expr a = min(like(x, kLargest), unary(Op::abs, x));
  const Expr square = a * a;
  const auto every_second = [&](size_t first) {  // two chains take less time than one that is twice as long
    Expr sum = like(x, kLogErfc[kLogErfc.size() - 2 + first]);
    for (size_t i = kLogErfc.size() - 2; i > 0; i -= 2) sum = fma(sum, square, like(x, kLogErfc[i - 2 + first]));
    return sum;
  };
  const Expr tail = unary(Op::exp, min(like(x, 0), fma(every_second(1), square, every_second(0) * a)));
  return fma(a * like(x, -0.5), tail, max(like(x, 0), x));
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  return by_tanh(op.node) ? scalar_float(op, in, gelu_tanh) : scalar_f32_math(op, in, gelu);
}

}  // namespace

KILTER_OP(Gelu){
    .name = "Gelu",
    .since = 20,
    .family = Family::map,
    .attrs = {{"approximate", "string", "none"}},
    .summary = "y = x * P(X <= x) of a standard normal X, or its tanh approximation.",
    .infer = infer,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .cases = {"f32[2,3,5]", "f32[2,3,5] | approximate=tanh", "f32[9]:-100,-5,-1,-1e-4,0,1e-4,1,5,100",
              "f32[9]:-100,-5,-1,-1e-4,0,1e-4,1,5,100 | approximate=tanh", "f32[17]", "f16[7]",
              "bf16[9] | approximate=tanh", "f64[33]"},
};

}  // namespace kilter
