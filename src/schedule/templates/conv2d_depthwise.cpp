// Depthwise convolution (one input and one output channel per group), and groups so small that a vector holds several.
// Vectors run over channels, a register tile over the pixels of a row. The padding is in the input's halo.

#include <algorithm>

#include "base/align.h"
#include "schedule/templates/conv_core.h"
#include "schedule/templates/depthwise_core.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

/// Pixels per tile for a streamed image, and the most multiply-adds per pixel for which streaming and not arithmetic is
/// the limit (measured: tiles of 14 pixels take 1.05 to 1.4 times as long).
constexpr int64_t kStreamedPixels = 4, kFewProducts = 9;

Answer<DepthwiseNest> analyse(const Task& task, const TargetLimits& limits) {
  const Node& node = task.node();
  if (node.op->family != Family::conv) return not_for("operator family", "conv", node.op->name);
  if (auto rejected = check_input_stored(task)) return *rejected;
  const Operand& x = task.operand(node.inputs[0]);
  const Operand& w = task.operand(node.inputs[1]);
  const TensorType& y = task.graph->type(node.outputs[0]);
  const int32_t lanes = lanes_of(limits);
  auto nest = depthwise_nest(node, x.type, w.type, y, lanes);
  if (std::holds_alternative<Rejected>(nest)) return nest;
  if (auto rejected = check_conv_operands(task)) return *rejected;
  if (y.layout.block != lanes || x.type.layout.block != lanes) {
    return Rejected{"block of the layouts", std::to_string(lanes),
                    fmt::format("{} in, {} out", x.type.layout.block, y.layout.block)};
  }
  if (auto rejected = check_elementwise(task, true)) return *rejected;
  if (auto rejected = check_halo(conv_window(node, x.type.shape, w.type.shape), x.type)) return *rejected;
  return nest;
}

std::vector<Knob> knobs(const DepthwiseNest& d, const TargetLimits& limits) {
  Knob tile{"tile", {}};
  for (int64_t t = 1; t <= std::min(d.out_w, most_row_pixels(d, limits)); ++t) tile.values.push_back(t);
  return {tile};
}

Answer<std::vector<Knob>> space(const Task& task, const TargetLimits& limits) {
  auto d = analyse(task, limits);
  if (auto* rejected = std::get_if<Rejected>(&d)) return *rejected;
  return knobs(std::get<DepthwiseNest>(d), limits);
}

/// Whether the kernel is limited by the image, which comes from beyond L2, and not by arithmetic: with strides, few
/// multiply-adds fall on each pixel read.
bool streams(const DepthwiseNest& d, const Operand& x, const TargetLimits& limits) {
  return d.step_h * d.step_w > 1 && d.products() <= kFewProducts &&
         x.phys.elems * size_bytes(x.type.dtype) > limits.l2_bytes;
}

Answer<Schedule> pick(const Task& task, const TargetLimits& limits) {
  auto d = analyse(task, limits);
  if (auto* rejected = std::get_if<Rejected>(&d)) return *rejected;
  const DepthwiseNest& nest = std::get<DepthwiseNest>(d);
  const bool small = streams(nest, task.operand(task.node().inputs[0]), limits);
  const int64_t tile = small ? equal_parts(nest.out_w, kStreamedPixels) : pick_row_tile(nest, limits);
  return Schedule{"conv2d_depthwise", {{"tile", tile}}};
}

std::vector<Schedule> candidates(const Task& task, const TargetLimits& limits) {
  std::vector<Schedule> all;
  const auto d = analyse(task, limits);
  if (std::holds_alternative<Rejected>(d)) return all;
  const std::vector<Knob> space = knobs(std::get<DepthwiseNest>(d), limits);
  for (const int64_t tile : space[0].values) all.push_back({"conv2d_depthwise", {{"tile", tile}}});
  return all;
}

Answer<Estimate> estimate(const Task& task, const Schedule& schedule, const TargetLimits& limits) {
  auto analysed = analyse(task, limits);
  if (auto* rejected = std::get_if<Rejected>(&analysed)) return *rejected;
  const DepthwiseNest& d = std::get<DepthwiseNest>(analysed);
  if (auto rejected = check_knobs(schedule, knobs(d, limits))) return *rejected;
  const int64_t tile = schedule.knob("tile");
  const double row = row_cycles(d, tile, limits);
  DepthwiseNest one = d;
  one.out_w = tile;
  const double full = static_cast<double>(d.out_w) / static_cast<double>(tile) * row_cycles(one, tile, limits);
  const auto channels = static_cast<double>(task.graph->type(task.node().outputs[0]).shape[1]);
  const double filled = channels / static_cast<double>(d.blocks * lanes_of(limits));
  return Estimate{static_cast<double>(d.n * d.blocks * d.out_h) * row, 1 - std::min(full / row, 1.0) * filled};
}

Answer<Lowered> lower(const Task& task, const Schedule& schedule, const TargetLimits& limits) {
  auto analysed = analyse(task, limits);
  if (auto* rejected = std::get_if<Rejected>(&analysed)) return *rejected;
  const DepthwiseNest& d = std::get<DepthwiseNest>(analysed);
  if (auto rejected = check_knobs(schedule, knobs(d, limits))) return *rejected;
  const int32_t lanes = lanes_of(limits);
  const Node& node = task.node();

  Emitter e(task, "conv2d_depthwise");
  const Expr n = e.b.parallel("n", d.n);
  const Expr block = e.b.parallel("cb", d.blocks);
  const Expr row = e.b.parallel("h", d.out_h);
  const Operand& x = task.operand(node.inputs[0]);
  const Shape& strides = x.phys.strides;
  DepthwiseInput input{e.input(node.inputs[0]), strides[3], {}};
  DepthwiseBuffers buffers;
  buffers.weights = e.constant(pack_depthwise(*task.operand(node.inputs[1]).constant, d, lanes), "w");
  buffers.bias = bias_of(e, node, lanes);
  const Expr origin =
      e.b.let("x0", Expr(x.phys.offset) + n * Expr(strides[0]) + block * Expr(strides[1]) +
                        (row * Expr(d.step_h) + Expr(d.first_h)) * Expr(strides[2]) + Expr(d.first_w * strides[3]));
  input.tile = [&](const Expr& w0) {
    const Expr x1 = e.b.let("x1", origin + w0 * Expr(d.step_w * strides[3]));
    return [&, x1](const Expr& r) { return x1 + r * Expr(d.dilation_h * strides[2]); };
  };
  const int64_t share = ceil_div(d.products(), d.out_h);
  prefetch_weights(e.b, d, buffers, block + Expr(1), row * Expr(share), share, limits);
  emit_depthwise_row(e, d, schedule.knob("tile"), input, buffers, n, block, row);
  Lowered lowered;
  lowered.stages.push_back(e.finish(lowered));
  return lowered;
}

}  // namespace

const Template conv2d_depthwise{"conv2d_depthwise",
                                "2-D convolution, depthwise or with few channels per group, by rows of pixels",
                                space,
                                pick,
                                lower,
                                candidates,
                                estimate};

}  // namespace kilter
