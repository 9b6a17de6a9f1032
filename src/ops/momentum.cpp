#include "ops/support/optimizer.h"

namespace kilter {
namespace {

constexpr size_t kStates = 1;

struct Settings {
  float alpha, beta, norm;
  bool nesterov;
};
Settings settings_of(const Node& node) {
  const std::string mode = node.string_attr("mode", "");
  if (mode != "standard" && mode != "nesterov") {
    node_error(node, fmt::format("attribute mode is '{}'; legal values are standard and nesterov", mode));
  }
  return {node.float_attr("alpha", 0), node.float_attr("beta", 0), node.float_attr("norm_coefficient", 0),
          mode == "nesterov"};
}

void infer(InferContext& ctx) {
  settings_of(ctx.node);
  infer_optimizer(ctx, kStates);
}

void reference(ReferenceContext& ctx) {
  const Settings set = settings_of(ctx.node);
  const double rate = ctx.in(0).as_double(0);
  const double beta = ctx.in(1).as_double(0) > 0 ? double{set.beta} : 1.0;
  reference_optimizer(ctx, kStates, [&](double& x, double gradient, auto& state) {
    const double g = set.norm * x + gradient;
    state[0] = set.alpha * state[0] + beta * g;
    x -= rate * (set.nesterov ? g + set.alpha * state[0] : state[0]);
  });
}

std::vector<ValueId> expand(ExpandContext& ctx) {
  const Settings set = settings_of(ctx.node);
  const ValueId beta = after_first_step(ctx, ctx.scalar(DType::f64, set.beta), ctx.scalar(DType::f64, 1));
  const ValueId rate = learning_rate(ctx);
  return expand_optimizer(ctx, kStates, [&](OptimizerStep& step) {
    const ValueId g = step.gradient(set.norm);
    const ValueId velocity = step.add(step.mul(step.state(0), set.alpha), step.mul(step.typed(beta), g));
    const ValueId direction = set.nesterov ? step.add(g, step.mul(velocity, set.alpha)) : velocity;
    return std::vector<ValueId>{step.sub(step.x(), step.mul(step.typed(rate), direction)), velocity};
  });
}

}  // namespace

KILTER_OP(Momentum){
    .name = "Momentum",
    .domain = "ai.onnx.preview.training",
    .family = Family::map,
    .min_inputs = 5,
    .max_inputs = -1,
    .min_outputs = 2,
    .max_outputs = -1,
    .attrs = {{"alpha", "float", "required"},
              {"beta", "float", "required"},
              {"mode", "string", "required"},
              {"norm_coefficient", "float", "required"}},
    .summary =
        "One step of gradient descent with momentum: v' = alpha v + beta g with g = gradient + norm_coefficient x and "
        "beta 1 for t = 0, x' = x - r v', or x - r (g + alpha v') in mode nesterov; inputs r, t, all x, all gradients, "
        "all v; outputs all x', all v'.",
    .infer = infer,
    .reference = reference,
    .expand = expand,
    .cases = {"f32[]:0.1 i64[]:0 f32[2,3] f32[2,3] f32[2,3] | norm_coefficient=0.001 alpha=0.95 beta=0.1 "
              "mode=standard | | 2",
              "f64[]:0.1 i64[1]:5 f32[5] f64[3] f32[5] f64[3] f32[5] f64[3] | norm_coefficient=0.01 alpha=0.95 "
              "beta=0.85 mode=nesterov | | 4"},
};

}  // namespace kilter
