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

Expr gelu(const Expr& x) {
  const Expr half = x * like(x, 0.5);
  return half + half * unary(Op::erf, x * like(x, kInvSqrt2));
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
