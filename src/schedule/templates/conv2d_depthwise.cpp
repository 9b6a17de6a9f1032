// Depthwise convolution (one input and one output channel per group), and convolution with groups so small that a
// vector contains several. Vectors run over channels, and a register tile covers pixels of a row. The padding is in the
// input's halo.

#include <algorithm>

#include "base/align.h"
#include "schedule/templates/conv_core.h"
#include "schedule/templates/depthwise_core.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

/// Pixels per tile for a streamed image, and the largest number of multiply-adds per pixel for which streaming, not
/// arithmetic, is the limit (measured: tiles of 14 pixels take 1.05 to 1.4 times as long).
constexpr int64_t kStreamedPixels = 4, kFewProducts = 9;

Result<DepthwiseNest> analyse(const Task& task, const CpuLimits& limits) {
  const Node& node = task.node();
  if (node.op->family != Family::conv) return not_for("operator family", "conv", node.op->name);
  if (auto rejected = check_input_stored(task)) return *rejected;
  const Operand& x = task.operand(node.inputs[0]);
  const Operand& w = task.operand(node.inputs[1]);
  const TensorType& y = task.graph->type(node.outputs[0]);
  const int32_t lanes = lanes_of(limits);
  auto nest = depthwise_nest(node, x.type, w.type, y, lanes);
  if (!nest) return nest;
  nest->overlap = task.open;
  if (w.constant != nullptr) nest->operands = depthwise_operands(*nest, x.type, *w.constant, y, limits);
  if (auto rejected = check_conv_operands(task, nest->operands.group > 1)) return *rejected;
  if (y.layout.block != lanes || x.type.layout.block != lanes) {
    return Rejected{"block of the layouts", std::to_string(lanes),
                    fmt::format("{} in, {} out", x.type.layout.block, y.layout.block)};
  }
  if (auto rejected = check_elementwise(task, true)) return *rejected;
  if (auto rejected = check_halo(conv_window(node, x.type.shape, w.type.shape), x.type)) return *rejected;
  return nest;
}

/// Whether the kernel is limited by reading the image from beyond L2 rather than by arithmetic: with strides greater
/// than 1, there are few multiply-adds for each pixel read.
bool streams(const DepthwiseNest& d, const Operand& x, const CpuLimits& limits) {
  return d.step_h * d.step_w > 1 && d.products() <= kFewProducts &&
         x.phys.elems * stored_bytes(x.type) > limits.l2_bytes;
}

class DepthwiseConv final : public Analysed {
 public:
  DepthwiseConv(const Task& task, const CpuLimits& limits, const DepthwiseNest& nest)
      : Analysed(task, limits), d_(nest) {}

  std::vector<Knob> space() const override {
    Knob tile{"tile", {}};
    for (int64_t t = 1; t <= std::min(d_.out_w, most_row_pixels(d_, limits())); ++t) tile.values.push_back(t);
    return {tile};
  }
  Result<Schedule> pick() const override {
    const bool small = streams(d_, task().operand(task().node().inputs[0]), limits());
    return schedule_of(small ? equal_parts(d_.out_w, kStreamedPixels) : pick_row_tile(d_, limits()));
  }
  std::vector<Schedule> candidates() const override {
    std::vector<Schedule> all;
    const std::vector<Knob> knobs = space();
    for (const int64_t tile : knobs[0].values) all.push_back(schedule_of(tile));
    return all;
  }

 private:
  static Schedule schedule_of(int64_t tile) { return {"conv2d_depthwise", {{"tile", tile}}}; }

  Estimate model(const Schedule& schedule) const override {
    const int64_t tile = schedule.knob("tile");
    const double row = row_cycles(d_, tile, limits());
    DepthwiseNest one = d_;
    one.out_w = tile;
    const double full = static_cast<double>(d_.out_w) / static_cast<double>(tile) * row_cycles(one, tile, limits());
    const auto channels = static_cast<double>(task().graph->type(task().node().outputs[0]).shape[1]);
    const double filled = channels / static_cast<double>(d_.blocks * lanes_of(limits()));
    return {static_cast<double>(d_.n * d_.blocks * d_.out_h) * row, 1 - std::min(full / row, 1.0) * filled};
  }

  Lowered emit(const Schedule& schedule) const override {
    const int32_t lanes = lanes_of(limits());
    const Node& node = task().node();
    Emitter e(task(), "conv2d_depthwise");
    const Expr n = e.b.parallel("n", d_.n);
    const Expr block = e.b.parallel("cb", d_.blocks);
    const Expr row = e.b.parallel("h", d_.out_h);
    const Operand& x = task().operand(node.inputs[0]);
    const Shape& strides = x.phys.strides;
    DepthwiseInput input{e.input(node.inputs[0]), strides[3], {}};
    DepthwiseBuffers buffers;
    buffers.weights = e.constant(pack_depthwise(*task().operand(node.inputs[1]).constant, d_, lanes), "w");
    buffers.bias = start_of(e, node, d_.operands, x.type, lanes);
    const Expr origin = e.b.let("x0", Expr(x.phys.offset) + n * Expr(strides[0]) + block * Expr(strides[1]) +
                                          (row * Expr(d_.step_h) + Expr(d_.first_h)) * Expr(strides[2]) +
                                          Expr(d_.first_w * strides[3]));
    input.tile = [&](const Expr& w0) {
      const Expr x1 = e.b.let("x1", origin + w0 * Expr(d_.step_w * strides[3]));
      return [&, this, x1](const Expr& r) { return x1 + r * Expr(d_.dilation_h * strides[2]); };
    };
    const int64_t share = ceil_div(d_.weight_vectors(), d_.out_h);
    prefetch_weights(e.b, d_, buffers, block + Expr(1), row * Expr(share), share, limits());
    emit_depthwise_row(e, d_, schedule.knob("tile"), input, buffers, n, block, row);
    return e.finish();
  }

  const DepthwiseNest d_;
};

}  // namespace

const Template conv2d_depthwise{"conv2d_depthwise",
                                "2-D convolution, depthwise or with few channels per group, by rows of pixels",
                                analyse_as<DepthwiseConv, analyse>};

}  // namespace kilter
