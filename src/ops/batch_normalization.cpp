#include <cmath>

#include "ops/support/elementwise.h"
#include "ops/support/normalize.h"
#include "ops/support/onnx_dtype.h"

namespace kilter {
namespace {

bool training(const Node& node) { return node.int_attr("training_mode", 0) != 0; }

/// Returns the shape of the node's parameters: [C], or [C, d0, ...] if opset 7 has spatial=0.
Shape parameter_shape(const Node& node, const Shape& x) {
  if (x.size() < 2) return {1};
  if (node.int_attr("spatial", 1) != 0) return {x[1]};
  return {x.begin() + 1, x.end()};
}
/// Returns the shape in which these parameters broadcast to x.
Shape aligned_shape(const Node& node, const Shape& x) {
  if (x.size() < 2 || node.int_attr("spatial", 1) == 0) return parameter_shape(node, x);
  return channel_shape(x[1], static_cast<int64_t>(x.size()));
}

void check(const Node& node, size_t outputs) {
  if (training(node) && node.int_attr("spatial", 1) == 0) node_error(node, "training_mode=1 needs spatial=1");
  if (outputs > 1 && !training(node)) {
    fail(ErrorKind::unsupported,
         "BatchNormalization '{}': has {} outputs, which means the training mode of opsets before 14; export the model "
         "for inference, with only output y",
         node.name, outputs);
  }
  if (outputs > 3) node_error(node, fmt::format("has {} outputs, expected 1 to 3", outputs));
}

void infer(InferContext& ctx) {
  for (size_t i = 0; i < 5; ++i) check_types(Floats{}, ctx, i);
  if (ctx.rank(0) < 1) ctx.error("input 0 is a scalar, expected [N, C, ...]");
  check(ctx.node, ctx.outputs.size());
  const Shape parameter = parameter_shape(ctx.node, ctx.shape(0));
  for (size_t i = 1; i < 5; ++i) {
    if (ctx.shape(i) != parameter) {
      ctx.error(fmt::format("input {} has shape {}, expected {}", i, text(ctx.shape(i)), text(parameter)));
    }
  }
  ctx.set(0, ctx.dtype(0), ctx.shape(0));
  for (size_t i = 1; i < ctx.outputs.size(); ++i) ctx.set(i, ctx.dtype(3), parameter);
}

/// Computes the mean and population variance of every channel of x.
void channel_moments(const Tensor& x, std::vector<double>& mean, std::vector<double>& variance) {
  const std::vector<double> values = load_doubles(x);
  const int64_t channels = x.rank() < 2 ? 1 : x.shape()[1];
  const int64_t plane = x.rank() < 2 ? 1 : product(x.shape(), 2, x.shape().size());
  const double count = channels == 0 ? 0.0 : static_cast<double>(x.elems() / channels);
  const auto channel = [&](size_t i) { return i / static_cast<size_t>(plane) % static_cast<size_t>(channels); };
  mean.assign(static_cast<size_t>(channels), 0.0);
  variance.assign(static_cast<size_t>(channels), 0.0);
  for (size_t i = 0; i < values.size(); ++i) mean[channel(i)] += values[i] / count;
  for (size_t i = 0; i < values.size(); ++i) {
    const double off = values[i] - mean[channel(i)];
    variance[channel(i)] += off * off / count;
  }
}

void reference(ReferenceContext& ctx) {
  const Tensor& x = ctx.in(0);
  std::vector<double> mean = load_doubles(ctx.in(3));
  std::vector<double> variance = load_doubles(ctx.in(4));
  if (training(ctx.node)) {
    const double momentum = ctx.node.float_attr("momentum", 0.9F);
    std::vector<double> running_mean = mean;
    std::vector<double> running_variance = variance;
    channel_moments(x, mean, variance);
    for (size_t c = 0; c < mean.size(); ++c) {
      running_mean[c] = running_mean[c] * momentum + mean[c] * (1 - momentum);
      running_variance[c] = running_variance[c] * momentum + variance[c] * (1 - momentum);
    }
    if (ctx.wants(1)) store_doubles(ctx.out(1), running_mean);
    if (ctx.wants(2)) store_doubles(ctx.out(2), running_variance);
  }
  const std::vector<double> scale = load_doubles(ctx.in(1));
  const std::vector<double> bias = load_doubles(ctx.in(2));
  const double epsilon = ctx.node.float_attr("epsilon", 1e-5F);
  const std::vector<double> values = load_doubles(x);
  std::vector<double> y;
  y.reserve(values.size());
  for_each_offset<1>(x.shape(), {broadcast_strides(aligned_shape(ctx.node, x.shape()), x.shape())},
                     [&](const std::array<int64_t, 1>& at) {
                       const auto c = static_cast<size_t>(at[0]);
                       const double factor = scale[c] / std::sqrt(variance[c] + epsilon);
                       y.push_back((values[y.size()] - mean[c]) * factor + bias[c]);
                     });
  if (ctx.wants(0)) store_doubles(ctx.out(0), y);
}

ValueId cast(ExpandContext& ctx, ValueId value, DType type) {
  if (ctx.builder.type(value).dtype == type) return value;
  return ctx.add("Cast", {value}, {{"to", code_of_dtype(type)}});
}

/// Computes y = x * a + b with a = scale / sqrt(variance + epsilon) and b = bias - mean * a, which are folded if the
/// statistics are constants. Uses f32, or f64 if any operand is f64.
std::vector<ValueId> expand(ExpandContext& ctx) {
  const Node& node = ctx.node;
  check(node, 1);
  const Shape shape = ctx.type(0).shape;
  DType type = DType::f32;
  for (size_t i = 0; i < 5; ++i) type = ctx.type(i).dtype == DType::f64 ? DType::f64 : type;
  const ValueId x = cast(ctx, ctx.in(0), type);
  ValueId mean = cast(ctx, ctx.in(3), type);
  ValueId variance = cast(ctx, ctx.in(4), type);
  const Shape parameter = aligned_shape(node, shape);
  const auto align = [&](ValueId value) { return ctx.add("Reshape", {value, ctx.builder.list(parameter)}); };
  std::vector<ValueId> results = {kNone};
  if (training(node)) {
    std::vector<int64_t> axes;
    for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d) {
      if (d != 1) axes.push_back(d);
    }
    const ValueId over = ctx.builder.list(axes);
    const auto average = [&](ValueId value) {
      const ValueId wide = ctx.add("ReduceMean", {value, over}, {{"keepdims", int64_t{0}}});
      return shape.size() < 2 ? ctx.add("Reshape", {wide, ctx.builder.constant(Tensor::of<int64_t>({1}, {1}))}) : wide;
    };
    const ValueId now = average(x);
    const ValueId off = ctx.add("Sub", {x, align(now)});
    const ValueId spread = average(ctx.add("Mul", {off, off}));
    const double momentum = node.float_attr("momentum", 0.9F);
    const ValueId keep = ctx.scalar(type, momentum);
    const ValueId change = ctx.scalar(type, 1 - momentum);
    const auto running = [&](ValueId before, ValueId current) {
      const ValueId mixed = ctx.add("Add", {ctx.add("Mul", {before, keep}), ctx.add("Mul", {current, change})});
      return cast(ctx, mixed, ctx.type(3).dtype);
    };
    results.push_back(running(mean, now));
    results.push_back(running(variance, spread));
    mean = now;
    variance = spread;
  }
  const ValueId deviation =
      ctx.add("Sqrt", {ctx.add("Add", {variance, ctx.scalar(type, node.float_attr("epsilon", 1e-5F))})});
  const ValueId a = ctx.add("Div", {cast(ctx, ctx.in(1), type), deviation});
  const ValueId b = ctx.add("Sub", {cast(ctx, ctx.in(2), type), ctx.add("Mul", {mean, a})});
  const ValueId y = ctx.add("Add", {ctx.add("Mul", {x, align(a)}), align(b)});
  results[0] = cast(ctx, y, ctx.type(0).dtype);
  // Older models may name statistics outputs that inference does not produce. This is an error only if they are used.
  results.resize(5, kNone);
  return results;
}

}  // namespace

KILTER_OP(BatchNormalization){
    .name = "BatchNormalization",
    .since = 7,
    .min_inputs = 5,
    .max_inputs = 5,
    .max_outputs = 5,
    .attrs = {{"epsilon", "float", "1e-5"},
              {"momentum", "float", "0.9"},
              {"spatial", "int", "1"},
              {"training_mode", "int", "0"}},
    .summary =
        "y = (x - mean) / sqrt(variance + epsilon) * scale + bias per channel of x [N, C, ...]; with training_mode=1 "
        "mean and variance are those of x, and the running ones are outputs 1 and 2.",
    .infer = infer,
    .reference = reference,
    .expand = expand,
    // The expansion rounds scale and shift once each, and the two may cancel.
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[2,17,7,9] f32[17] f32[17] f32[17] f32[17]=0.5",
              "f32[1,3,33] f32[3] f32[3] f32[3] f32[3]=1.25 | epsilon=0.01 | 9",
              "f32[5,7] f32[7] f32[7] f32[7] f32[7]=2 | | 7", "f32[2,5,3,4,5] f32[5] f32[5] f32[5] f32[5]=0.75 | | 14"},
};

}  // namespace kilter
