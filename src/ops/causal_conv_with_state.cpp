#include <cmath>

#include "ops/support/elementwise.h"

namespace kilter {
namespace {

bool has_silu(const Node& node) {
  const std::string activation = node.string_attr("activation", "none");
  if (activation == "none") return false;
  if (activation == "silu" || activation == "swish") return true;
  node_error(node, fmt::format("attribute activation is '{}'; legal values are none, silu and swish", activation));
}

/// Returns [batch, channels, k - 1] for x [batch, channels, length] and w [channels, 1, k]. Throws bad_model.
Shape state_shape(const Node& node, const Shape& x, const Shape& w) {
  if (x.size() != 3 || w.size() != 3 || w[0] != x[1] || w[1] != 1 || w[2] < 1) {
    node_error(node,
               fmt::format("input and weight have shapes {} and {}, expected [batch, channels, length] and [channels, "
                           "1, k]",
                           text(x), text(w)));
  }
  return {x[0], x[1], w[2] - 1};
}

void infer(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  check_same_dtype(ctx);
  has_silu(ctx.node);
  const Shape state = state_shape(ctx.node, ctx.shape(0), ctx.shape(1));
  if (ctx.has(2) && ctx.shape(2) != Shape{state[1]}) {
    ctx.error(fmt::format("bias has shape {}, expected {}", text(ctx.shape(2)), state[1]));
  }
  if (ctx.has(3) && ctx.shape(3) != state) {
    ctx.error(fmt::format("past_state has shape {}, expected {}", text(ctx.shape(3)), text(state)));
  }
  ctx.set(0, ctx.dtype(0), ctx.shape(0));
  if (ctx.outputs.size() > 1) ctx.set(1, ctx.dtype(0), state);
}

void reference(ReferenceContext& ctx) {
  const Shape& shape = ctx.in(0).shape();
  const int64_t length = shape[2];
  const int64_t taps = ctx.in(1).shape()[2];
  const bool silu = has_silu(ctx.node);
  const std::vector<double> x = load_doubles(ctx.in(0));
  const std::vector<double> w = load_doubles(ctx.in(1));
  const std::vector<double> bias = ctx.has(2) ? load_doubles(ctx.in(2)) : std::vector<double>();
  const std::vector<double> past = ctx.has(3) ? load_doubles(ctx.in(3)) : std::vector<double>();
  std::vector<double> y;
  std::vector<double> present;
  for (int64_t row = 0; row < shape[0] * shape[1]; ++row) {
    const int64_t c = row % shape[1];
    std::vector<double> line(static_cast<size_t>(taps - 1), 0.0);
    if (!past.empty()) line.assign(past.begin() + row * (taps - 1), past.begin() + (row + 1) * (taps - 1));
    line.insert(line.end(), x.begin() + row * length, x.begin() + (row + 1) * length);
    for (int64_t p = 0; p < length; ++p) {
      double sum = bias.empty() ? 0.0 : bias[static_cast<size_t>(c)];
      for (int64_t k = 0; k < taps; ++k) sum += w[static_cast<size_t>(c * taps + k)] * line[static_cast<size_t>(p + k)];
      y.push_back(silu ? sum / (1 + std::exp(-sum)) : sum);
    }
    present.insert(present.end(), line.begin() + length, line.end());
  }
  if (ctx.wants(0)) store_doubles(ctx.out(0), y);
  if (ctx.wants(1)) store_doubles(ctx.out(1), present);
}

std::vector<ValueId> expand(ExpandContext& ctx) {
  const Shape x = ctx.type(0).shape;
  const Shape state = state_shape(ctx.node, x, ctx.type(1).shape);
  const auto ints = [&](const std::vector<int64_t>& values) { return ctx.builder.list(values); };
  const ValueId past = ctx.has(3) ? ctx.in(3) : ctx.add("Expand", {ctx.scalar(ctx.type(0).dtype, 0), ints(state)});
  const ValueId line = ctx.add("Concat", {past, ctx.in(0)}, {{"axis", int64_t{2}}});
  const ValueId conv = ctx.add("Conv", {line, ctx.in(1), ctx.has(2) ? ctx.in(2) : kNone}, {{"group", state[1]}});
  const ValueId y = has_silu(ctx.node) ? ctx.add("Mul", {conv, ctx.add("Sigmoid", {conv})}) : conv;
  return {y, ctx.add("Slice", {line, ints({x[2]}), ints({x[2] + state[2]}), ints({2})})};
}

}  // namespace

KILTER_OP(CausalConvWithState){
    .name = "CausalConvWithState",
    .since = 27,
    .min_inputs = 2,
    .max_inputs = 4,
    .max_outputs = 2,
    .attrs = {{"activation", "string", "none"}},
    .summary =
        "Depthwise convolution of past_state [batch, channels, k - 1] followed by x [batch, channels, length] with w "
        "[channels, 1, k], then x * sigmoid(x) if requested; also the last k - 1 elements as the next state.",
    .infer = infer,
    .reference = reference,
    .expand = expand,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[2,5,9] f32[5,1,4] f32[5] | | | 2", "f32[1,3,2] f32[3,1,4] ? f32[1,3,3] | activation=silu | | 2",
              "f32[1,7,1] f32[7,1,1] f32[7] | activation=swish | | 2"},
};

}  // namespace kilter
