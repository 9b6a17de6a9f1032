#include <cmath>

#include "ops/support/optimizer.h"

namespace kilter {
namespace {

constexpr size_t kStates = 1;

struct Settings {
  float norm, decay, epsilon;
};
Settings settings_of(const Node& node) {
  return {node.float_attr("norm_coefficient", 0), node.float_attr("decay_factor", 0),
          node.float_attr("epsilon", 1e-6F)};
}

void infer(InferContext& ctx) { infer_optimizer(ctx, kStates); }

void reference(ReferenceContext& ctx) {
  const Settings set = settings_of(ctx.node);
  const double rate = ctx.in(0).as_double(0) / (1 + ctx.in(1).as_double(0) * set.decay);
  reference_optimizer(ctx, kStates, [&](double& x, double gradient, auto& state) {
    const double g = set.norm * x + gradient;
    state[0] += g * g;
    x -= rate * g / (std::sqrt(state[0]) + set.epsilon);
  });
}

std::vector<ValueId> expand(ExpandContext& ctx) {
  const Settings set = settings_of(ctx.node);
  const ValueId slower =
      ctx.add("Add", {ctx.scalar(DType::f64, 1), ctx.add("Mul", {steps_made(ctx), ctx.scalar(DType::f64, set.decay)})});
  const ValueId rate = ctx.add("Div", {learning_rate(ctx), slower});
  return expand_optimizer(ctx, kStates, [&](OptimizerStep& step) {
    const ValueId g = step.gradient(set.norm);
    const ValueId squares = step.add(step.state(0), step.mul(g, g));
    const ValueId change = step.div(step.mul(step.typed(rate), g), step.root(squares, set.epsilon));
    return std::vector<ValueId>{step.sub(step.x(), change), squares};
  });
}

}  // namespace

KILTER_OP(Adagrad){
    .name = "Adagrad",
    .domain = "ai.onnx.preview.training",
    .family = Family::map,
    .min_inputs = 5,
    .max_inputs = -1,
    .min_outputs = 2,
    .max_outputs = -1,
    .attrs = {{"decay_factor", "float", "0"}, {"epsilon", "float", "1e-6"}, {"norm_coefficient", "float", "0"}},
    .summary =
        "One step of Adagrad (Duchi, Hazan and Singer 2011) with learning rate r / (1 + t decay_factor): h' = h + g g "
        "with g = gradient + norm_coefficient x, x' = x - rate g / (sqrt(h') + epsilon), for any number of tensors x; "
        "inputs r, t, all x, all gradients, all h; outputs all x', all h'.",
    .infer = infer,
    .reference = reference,
    .expand = expand,
    .cases = {"f32[]:0.1 i64[]:3 f32[2,3] f32[2,3] f32[2,3]:0.5 | norm_coefficient=0.01 decay_factor=0.1 | | 2",
              "f64[1]:0.1 i64[1]:0 f32[5] f64[3] f32[5] f64[3] f32[5]:2 f64[3]:0.25 | | | 4"},
};

}  // namespace kilter
