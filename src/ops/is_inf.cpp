#include "ops/support/float_predicate.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Detect {
  bool negative;
  bool positive;
  explicit Detect(const Node& node)
      : negative(node.int_attr("detect_negative", 1) != 0), positive(node.int_attr("detect_positive", 1) != 0) {}
};

void reference(ReferenceContext& ctx) {
  const Detect detect(ctx.node);
  reference_float_predicate(
      ctx, [=](auto x) { return std::isinf(x) && ((detect.negative && x < 0) || (detect.positive && x > 0)); });
}

std::optional<Expr> scalar(const OpView& op, std::span<const Expr> in) {
  if (is_narrow(op.inputs[0].dtype)) return std::nullopt;
  const Detect detect(op.node);
  return scalar_unary(op, in, [=](const Expr& x) {
    if (detect.negative && detect.positive) return binary(Op::eq, unary(Op::abs, x), like(x, kInfinity));
    if (detect.negative) return binary(Op::eq, x, like(x, -kInfinity));
    return binary(Op::eq, x, like(x, detect.positive ? kInfinity : std::nan("")));
  });
}

}  // namespace

KILTER_OP(IsInf){
    .name = "IsInf",
    .since = 10,
    .family = Family::map,
    .attrs = {{"detect_negative", "int", "1"}, {"detect_positive", "int", "1"}},
    .summary = "y = whether x is an infinity of a selected sign.",
    .infer = infer_float_predicate,
    .reference = reference,
    .scalar = scalar,
    .zero_preserving = true,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[5]:-inf,inf,nan,0,1", "f32[5]:-inf,inf,nan,0,1 | detect_negative=0",
              "f32[5]:-inf,inf,nan,0,1 | detect_positive=0",
              "f32[5]:-inf,inf,nan,0,1 | detect_positive=0 detect_negative=0", "f16[3]:-inf,inf,5", "f64[17]",
              "bf16[2]:inf,nan", "f8e5m2[5]:nan,inf,0,1,-inf"},
};

}  // namespace kilter
