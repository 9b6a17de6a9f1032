#include <cmath>

#include "ops/support/optimizer.h"

namespace kilter {
namespace {

constexpr size_t kStates = 2;  // the averages of the gradients and of their squares

struct Settings {
  float alpha, beta, epsilon, norm, norm_after;
};
Settings settings_of(const Node& node) {
  const Settings set = {node.float_attr("alpha", 0.9F), node.float_attr("beta", 0.999F),
                        node.float_attr("epsilon", 1e-6F), node.float_attr("norm_coefficient", 0),
                        node.float_attr("norm_coefficient_post", 0)};
  if (!(set.alpha >= 0 && set.beta >= 0)) {
    node_error(node, fmt::format("alpha is {} and beta {}; expected 0 or more", set.alpha, set.beta));
  }
  return set;
}

void infer(InferContext& ctx) {
  settings_of(ctx.node);
  infer_optimizer(ctx, kStates);
}

void reference(ReferenceContext& ctx) {
  const Settings set = settings_of(ctx.node);
  const double t = ctx.in(1).as_double(0);
  double rate = ctx.in(0).as_double(0);
  if (t > 0) rate *= std::sqrt(1 - std::pow(double{set.beta}, t)) / (1 - std::pow(double{set.alpha}, t));
  reference_optimizer(ctx, kStates, [&](double& x, double gradient, auto& state) {
    const double g = set.norm * x + gradient;
    state[0] = set.alpha * state[0] + (1 - double{set.alpha}) * g;
    state[1] = set.beta * state[1] + (1 - double{set.beta}) * g * g;
    x -= rate * state[0] / (std::sqrt(state[1]) + set.epsilon);
    x *= 1 - double{set.norm_after};
  });
}

/// Returns 1 - base^t for the number of steps t.
ValueId complement_of_power(ExpandContext& ctx, float base) {
  const ValueId power =
      ctx.add("Exp", {ctx.add("Mul", {steps_made(ctx), ctx.scalar(DType::f64, std::log(double{base}))})});
  return ctx.add("Sub", {ctx.scalar(DType::f64, 1), power});
}

std::vector<ValueId> expand(ExpandContext& ctx) {
  const Settings set = settings_of(ctx.node);
  const ValueId rate = learning_rate(ctx);
  const ValueId grown = ctx.add("Mul", {rate, ctx.add("Sqrt", {complement_of_power(ctx, set.beta)})});
  const ValueId corrected = after_first_step(ctx, ctx.add("Div", {grown, complement_of_power(ctx, set.alpha)}), rate);
  return expand_optimizer(ctx, kStates, [&](OptimizerStep& step) {
    const ValueId g = step.gradient(set.norm);
    const ValueId average = step.add(step.mul(step.state(0), set.alpha), step.mul(g, 1 - double{set.alpha}));
    const ValueId squares = step.add(step.mul(step.state(1), set.beta), step.mul(step.mul(g, g), 1 - double{set.beta}));
    const ValueId change = step.div(step.mul(step.typed(corrected), average), step.root(squares, set.epsilon));
    const ValueId x = step.sub(step.x(), change);
    return std::vector<ValueId>{set.norm_after == 0 ? x : step.mul(x, 1 - double{set.norm_after}), average, squares};
  });
}

}  // namespace

KILTER_OP(Adam){
    .name = "Adam",
    .domain = "ai.onnx.preview.training",
    .family = Family::map,
    .min_inputs = 6,
    .max_inputs = -1,
    .min_outputs = 3,
    .max_outputs = -1,
    .attrs = {{"alpha", "float", "0.9"},
              {"beta", "float", "0.999"},
              {"epsilon", "float", "1e-6"},
              {"norm_coefficient", "float", "0"},
              {"norm_coefficient_post", "float", "0"}},
    .summary =
        "One step of Adam (Kingma and Ba 2015): v' = alpha v + (1 - alpha) g and h' = beta h + (1 - beta) g g with g = "
        "gradient + norm_coefficient x, x' = (1 - norm_coefficient_post) (x - rate v' / (sqrt(h') + epsilon)), where "
        "rate is r, for t > 0 times sqrt(1 - beta^t) / (1 - alpha^t); inputs r, t, all x, all gradients, all v, all h; "
        "outputs all x', all v', all h'.",
    .infer = infer,
    .reference = reference,
    .expand = expand,
    .cases = {"f32[]:0.1 i64[]:0 f32[2,3] f32[2,3] f32[2,3] f32[2,3]:0.5 | norm_coefficient=0.001 | | 3",
              "f32[]:0.1 i64[]:7 f32[5] f64[3] f32[5] f64[3] f32[5] f64[3] f32[5]:2 f64[3]:0.25 | alpha=0.95 "
              "beta=0.85 epsilon=0.01 norm_coefficient_post=0.1 | | 6"},
};

}  // namespace kilter
