// Convolution with few output channels, which would leave most lanes unused in vectors of output channels. Vectors run
// over the pixels of a row, or over the reduction (pixel_tiles.h). The input is plain or blocked with its padding in
// the halo, and the output is plain.

#include "schedule/templates/conv2d_pixels.h"

#include <algorithm>

#include "ops/support/window.h"
#include "schedule/templates/conv_core.h"
#include "schedule/templates/pixel_tiles.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

constexpr int64_t kMostOutputs = 8;
/// The predicted gain over blocked results from which plain ones were faster in all measurements.
constexpr double kGain = 1.25;
/// Smaller images stay blocked: there is little to gain, and changes of layout may cost more.
constexpr int64_t kFewestPixels = 64;

/// The nest of a convolution with an input in blocks of `in_block` channels.
PixelNest nest_of(const Node& conv, const Shape& x, const Shape& w, int64_t in_block) {
  const Window win = conv_window(conv, x, w);
  PixelNest n;
  n.n = x[0];
  n.in_channels = x[1], n.out_channels = w[0];
  n.in_block = in_block;
  n.kernel_h = w[2], n.kernel_w = w[3];
  n.dilation_h = win.dilations[0], n.dilation_w = win.dilations[1];
  n.step_h = win.strides[0], n.step_w = win.strides[1];
  n.first_h = -win.pads_begin[0], n.first_w = -win.pads_begin[1];
  n.out_h = win.out[0], n.out_w = win.out[1];
  return n;
}

bool is_point(const PixelNest& n) {
  return n.kernel_h * n.kernel_w == 1 && n.step_h == 1 && n.step_w == 1 && n.first_h == 0 && n.first_w == 0;
}

/// The halo that covers the padding of a window.
std::array<int32_t, 4> halo_of(const Window& win) {
  return {static_cast<int32_t>(win.pads_begin[0]), static_cast<int32_t>(win.pads_end[0]),
          static_cast<int32_t>(win.pads_begin[1]), static_cast<int32_t>(win.pads_end[1])};
}

/// Treats the image as one long row if a kernel of one pixel allows that.
void flatten(PixelNest& n) {
  n.out_w *= n.out_h;
  n.out_h = 1;
}

/// Whether consecutive rows are adjacent in memory in every operand of the result's shape, and in the image.
bool rows_follow(const Task& task, const Domain& domain) {
  const Node& node = task.node();
  const auto follow = [&](const Operand& o) {
    const bool image = o.value == node.inputs[0];
    if (!image && std::ranges::count(node.inputs, o.value) > 0) return true;
    const Shape s = image ? o.phys.strides : strides_in(domain, o);
    return s[2] == s[3] * domain.dims[3];
  };
  return std::ranges::all_of(task.inputs, follow) && std::ranges::all_of(task.outputs, follow);
}

Result<PixelNest> analyse(const Task& task, const CpuLimits& limits) {
  const Node& node = task.node();
  if (node.op->family != Family::conv) return not_for("operator family", "conv", node.op->name);
  if (auto rejected = check_input_stored(task)) return *rejected;
  const TensorType& y = task.graph->type(node.outputs[0]);
  if (y.layout.block != 1) return not_for("layout of the output", "plain", fmt::format("c{}", y.layout.block));
  if (auto rejected = check_conv_operands(task)) return *rejected;
  if (node.int_attr("group", 1) != 1) return Rejected{"groups", "1", std::to_string(node.int_attr("group", 1))};
  if (y.shape[1] > kMostOutputs)
    return Rejected{"output channels", "at most " + std::to_string(kMostOutputs), std::to_string(y.shape[1])};
  if (auto rejected = check_elementwise(task)) return *rejected;
  const Operand& x = task.operand(node.inputs[0]);
  const Shape& w = task.graph->type(node.inputs[1]).shape;
  if (x.type.layout.block != 1 && x.type.layout.block != lanes_of(limits))
    return Rejected{"block of the input layout", fmt::format("1 or {}", lanes_of(limits)),
                    std::to_string(x.type.layout.block)};
  if (auto rejected = check_halo(conv_window(node, x.type.shape, w), x.type)) return *rejected;
  if (x.type.layout.block == 1 && x.phys.strides[3] != 1)
    return Rejected{"distance of neighbouring pixels", "1", std::to_string(x.phys.strides[3])};
  PixelNest n = nest_of(node, x.type.shape, w, x.type.layout.block);
  if (is_point(n) && rows_follow(task, domain_of(y))) flatten(n);
  if (pixel_tiles(n, limits).empty())
    return Rejected{"vector registers for the smallest tile", std::to_string(limits.vector_registers), "more"};
  return n;
}

class PixelConv final : public Analysed {
 public:
  PixelConv(const Task& task, const CpuLimits& limits, const PixelNest& nest) : Analysed(task, limits), n_(nest) {}

  std::vector<Knob> space() const override {
    std::vector<Knob> space{{"sums", {}}, {"outputs", {}}, {"rows", {}}, {"tile", {}}};
    for (const PixelTile& t : pixel_tiles(n_, limits())) {
      space[0].values.push_back(t.sums ? 1 : 0);
      space[1].values.push_back(t.outputs);
      space[2].values.push_back(t.rows);
      space[3].values.push_back(t.tile);
    }
    for (Knob& knob : space) {
      std::ranges::sort(knob.values);
      knob.values.erase(std::ranges::unique(knob.values).begin(), knob.values.end());
    }
    return space;
  }
  Result<Schedule> pick() const override { return schedule_of(pick_pixels(n_, limits())); }
  std::vector<Schedule> candidates() const override {
    std::vector<Schedule> all;
    for (const PixelTile& tile : pixel_tiles(n_, limits())) all.push_back(schedule_of(tile));
    return all;
  }

 private:
  static Schedule schedule_of(const PixelTile& t) {
    return {"conv2d_pixels", {{"sums", t.sums ? 1 : 0}, {"outputs", t.outputs}, {"rows", t.rows}, {"tile", t.tile}}};
  }
  static PixelTile tile_of(const Schedule& s) {
    return {s.knob("sums") == 1, s.knob("outputs"), s.knob("rows"), s.knob("tile")};
  }

  std::optional<Rejected> conflict(const Schedule& schedule) const override {
    const PixelTile tile = tile_of(schedule);
    const auto tiles = pixel_tiles(n_, limits());
    if (std::ranges::find(tiles, tile) != tiles.end()) return std::nullopt;
    return Rejected{
        tile.sums ? "tile of sums (outputs x rows x 1, 2, 4, ... pixels)" : "tile of pixels (outputs x rows x vectors)",
        fmt::format("one that fits in {} registers", limits().vector_registers), text(tile)};
  }
  static std::string text(const PixelTile& t) { return fmt::format("{} x {} x {}", t.outputs, t.rows, t.tile); }

  Estimate model(const Schedule& schedule) const override { return estimate_pixels(n_, tile_of(schedule), limits()); }

  Lowered emit(const Schedule& schedule) const override {
    const PixelTile tile = tile_of(schedule);
    const Node& node = task().node();
    Emitter e(task(), "conv2d_pixels");
    PixelBuffers buffers;
    buffers.input = node.inputs[0];
    e.input(buffers.input);
    buffers.weights = e.constant(pack_pixels(task(), node.inputs[1], n_, tile, limits()), "w");
    buffers.bias = bias_of(e, node, 1);
    emit_pixels(e, n_, tile, buffers, limits());
    return e.finish();
  }

  const PixelNest n_;
};

}  // namespace

bool pixels_pay(const Graph& graph, const Node& conv, int32_t in_block, const CpuLimits& limits) {
  TensorType x = graph.type(conv.inputs[0]), y = graph.type(conv.outputs[0]);
  const TensorType& w = graph.type(conv.inputs[1]);
  if (conv.int_attr("group", 1) != 1 || y.shape[1] > kMostOutputs) return false;
  PixelNest n = nest_of(conv, x.shape, w.shape, in_block);
  if (is_point(n)) flatten(n);
  if (n.out_h * n.out_w < kFewestPixels || pixel_tiles(n, limits).empty()) return false;
  const double plain = estimate_pixels(n, pick_pixels(n, limits), limits).cycles;

  // The same convolution with a blocked result, as direct convolution: Winograd's method needs more output channels.
  const Window win = conv_window(conv, x.shape, w.shape);
  const bool planar = x.shape[1] <= limits.planar_channels;
  x.layout = {planar ? 1 : limits.preferred_block(), halo_of(win)};
  y.layout.block = limits.preferred_block();
  auto direct = direct_nest(conv, x, w, y);
  if (!direct) return false;
  allow_half_tail(*direct, limits);
  if (is_point(n)) direct->out_w = n.out_w, direct->out_h = n.out_h;
  const double blocked = estimate_tile(*direct, pick_tile(*direct, limits), limits).cycles;
  return beside(blocked, image_cycles(n, limits)) > kGain * plain;
}

const Template conv2d_pixels{"conv2d_pixels", "2-D convolution with few output channels, by vectors of pixels",
                             analyse_as<PixelConv, analyse>};

}  // namespace kilter
