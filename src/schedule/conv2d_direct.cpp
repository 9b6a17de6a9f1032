// Direct convolution: register tiles of pixels x output-channel vectors over the whole reduction, blocked or planar
// input (its padding in the halo), blocked output, weights packed in streaming order.

#include <algorithm>

#include "ops/window.h"
#include "schedule/conv_core.h"
#include "schedule/templates.h"

namespace kilter {
namespace {

struct Conv {
  ConvNest nest;
  int64_t out_channels = 0;  ///< per group
  bool flat = false;         ///< the image is walked as one long row
};

/// Cycles of one vector of everything that the epilogue reads and writes in the result's shape; none where it is
/// not far more than L2 holds (measured).
double epilogue_line_cycles(const Task& task, const TargetLimits& limits) {
  const TensorType& result = task.graph->type(task.node().outputs[0]);
  int64_t bytes = 0, streams = 0;
  for (const auto* list : {&task.inputs, &task.outputs}) {
    for (const Operand& o : *list) {
      const bool same = o.type.shape == result.shape && o.constant == nullptr && o.value != task.node().inputs[0];
      if (same) bytes += o.phys.elems * size_bytes(o.type.dtype), ++streams;
    }
  }
  if (bytes <= 2 * limits.l2_bytes) return 0;
  return static_cast<double>(streams * limits.vector_bytes) / reread_rate(bytes, limits);
}

bool rows_contiguous(const Task& task, const Domain& domain) {
  for (const auto* list : {&task.inputs, &task.outputs}) {
    for (const Operand& o : *list) {
      if (o.value == task.node().inputs[0] || o.value == task.node().inputs[1]) continue;
      if (task.node().inputs.size() > 2 && o.value == task.node().inputs[2]) continue;
      const Shape s = strides_in(domain, o);
      if (s[2] != s[3] * domain.dims[3]) return false;
    }
  }
  return true;
}

Answer<Conv> analyse(const Task& task, const TargetLimits& limits) {
  const Node& node = task.node();
  if (node.op->family != Family::conv) return Rejected{"operator family", "conv", std::string(node.op->name)};
  const Operand& x = task.operand(node.inputs[0]);
  const Operand& w = task.operand(node.inputs[1]);
  const TensorType& y = task.graph->type(node.outputs[0]);
  const int32_t lanes = lanes_of(limits);
  if (auto rejected = check_conv_operands(task)) return *rejected;
  if (y.layout.block != lanes)
    return Rejected{"block of the output layout", std::to_string(lanes), std::to_string(y.layout.block)};
  if (!task.prologue.empty()) return Rejected{"prologue", "none", std::to_string(task.prologue.size()) + " nodes"};
  if (auto rejected = check_elementwise(task)) return *rejected;
  const Window win = conv_window(node, x.type.shape, w.type.shape);
  if (auto rejected = check_halo(win, x.type)) return *rejected;
  Conv c;
  ConvNest& n = c.nest;
  n.groups = node.int_attr("group", 1);
  n.n = x.type.shape[0];
  n.in_channels = x.type.shape[1] / n.groups;
  n.in_block = x.type.layout.block;
  c.out_channels = y.shape[1] / n.groups;
  n.out_blocks = (c.out_channels + lanes - 1) / lanes;
  if (n.groups > 1 && (n.in_channels % std::max<int64_t>(n.in_block, 1) != 0 || c.out_channels % lanes != 0)) {
    return Rejected{"channels per group are whole blocks", std::to_string(lanes),
                    fmt::format("{} in, {} out", n.in_channels, c.out_channels)};
  }
  n.kernel_h = w.type.shape[2], n.kernel_w = w.type.shape[3];
  n.dilation_h = win.dilations[0], n.dilation_w = win.dilations[1];
  n.step_h = win.strides[0], n.step_w = win.strides[1];
  n.first_h = -win.pads_begin[0], n.first_w = -win.pads_begin[1];
  n.out_h = y.shape[2], n.out_w = y.shape[3];
  n.out_line_cycles = epilogue_line_cycles(task, limits);
  const bool point = n.taps() == 1 && n.step_h == 1 && n.step_w == 1 && n.first_h == 0 && n.first_w == 0;
  if (point && x.phys.strides[2] == x.phys.strides[3] * n.out_w && rows_contiguous(task, domain_of(y))) {
    c.flat = true;
    n.out_w *= n.out_h;
    n.out_h = 1;
  }
  return c;
}

std::vector<Knob> knobs(const Conv& c, const TargetLimits& limits) {
  std::vector<Knob> space = tile_space(c.nest, limits);
  // Over plain inputs taps are written out, and nothing is prefetched.
  space.push_back(c.nest.in_block > 1 ? prefetch_knob() : Knob{"prefetch", {0}});
  return space;
}

Answer<std::vector<Knob>> space(const Task& task, const TargetLimits& limits) {
  auto conv = analyse(task, limits);
  if (auto* rejected = std::get_if<Rejected>(&conv)) return *rejected;
  return knobs(std::get<Conv>(conv), limits);
}

int64_t weight_bytes(const ConvNest& nest, const TargetLimits& limits) {
  return nest.groups * nest.out_blocks * nest.panel_elems(1, lanes_of(limits)) * 4;
}

Schedule schedule_of(const ConvNest& nest, const ConvTile& tile, const TargetLimits& limits) {
  return Schedule{"conv2d_direct",
                  {{"vectors", tile.vectors},
                   {"rows", tile.rows},
                   {"tile", tile.tile},
                   {"prefetch", nest.in_block > 1 ? pick_prefetch(weight_bytes(nest, limits), limits) : 0}}};
}

Answer<Schedule> pick(const Task& task, const TargetLimits& limits) {
  auto conv = analyse(task, limits);
  if (auto* rejected = std::get_if<Rejected>(&conv)) return *rejected;
  const ConvNest& nest = std::get<Conv>(conv).nest;
  return schedule_of(nest, pick_tile(nest, limits), limits);
}

std::vector<Schedule> candidates(const Task& task, const TargetLimits& limits) {
  std::vector<Schedule> all;
  auto conv = analyse(task, limits);
  if (std::holds_alternative<Rejected>(conv)) return all;
  const ConvNest& nest = std::get<Conv>(conv).nest;
  for (const ConvTile& tile : tile_candidates(nest, limits)) all.push_back(schedule_of(nest, tile, limits));
  return all;
}

Answer<Estimate> estimate(const Task& task, const Schedule& schedule, const TargetLimits& limits) {
  auto analysed = analyse(task, limits);
  if (auto* rejected = std::get_if<Rejected>(&analysed)) return *rejected;
  const Conv& conv = std::get<Conv>(analysed);
  if (auto rejected = check_knobs(schedule, knobs(conv, limits))) return *rejected;
  const ConvTile tile{schedule.knob("vectors"), schedule.knob("rows"), schedule.knob("tile")};
  if (auto rejected = check_tile(conv.nest, tile, limits)) return *rejected;
  Estimate out = estimate_tile(conv.nest, tile, limits);
  const auto lanes = static_cast<double>(conv.nest.out_blocks * lanes_of(limits));
  out.constant_bytes = weight_bytes(conv.nest, limits);
  out.tail = 1 - (1 - out.tail) * static_cast<double>(conv.out_channels) / lanes;
  return out;
}

Tensor pack(const Tensor& w, const Conv& c, const ConvTile& tile, int32_t lanes) {
  const ConvNest& n = c.nest;
  Tensor packed(DType::f32, {n.groups * (n.out_blocks / tile.vectors) * n.panel_elems(tile.vectors, lanes)});
  const float* from = w.data<float>();
  pack_weights(n, tile, lanes, c.out_channels, packed.data<float>(),
               [&](int64_t g, int64_t k, int64_t ch, int64_t r, int64_t s) {
                 return from[(((g * c.out_channels + k) * n.in_channels + ch) * n.kernel_h + r) * n.kernel_w + s];
               });
  return packed;
}

Answer<Lowered> lower(const Task& task, const Schedule& schedule, const TargetLimits& limits) {
  auto analysed = analyse(task, limits);
  if (auto* rejected = std::get_if<Rejected>(&analysed)) return *rejected;
  const Conv& conv = std::get<Conv>(analysed);
  if (auto rejected = check_knobs(schedule, knobs(conv, limits))) return *rejected;
  const ConvTile tile{schedule.knob("vectors"), schedule.knob("rows"), schedule.knob("tile")};
  if (auto rejected = check_tile(conv.nest, tile, limits)) return *rejected;
  const int32_t lanes = lanes_of(limits);
  const Node& node = task.node();

  Emitter e(task, "conv2d_direct");
  const Expr n = e.b.parallel("n", conv.nest.n);
  const Expr g = e.b.parallel("g", conv.nest.groups);
  const Expr ocg = e.b.parallel("ocg", conv.nest.out_blocks / tile.vectors);
  const Expr item = e.b.parallel("item", nest_items(conv.nest, tile));
  ConvBuffers buffers;
  buffers.input = node.inputs[0];
  buffers.output = node.outputs[0];
  buffers.prefetch_epilogue = true;
  e.input(buffers.input);
  buffers.weights = e.constant(pack(*task.operand(node.inputs[1]).constant, conv, tile, lanes), "w");
  if (node.inputs.size() > 2 && node.inputs[2] != kNone) {
    buffers.bias = e.constant(pad_vector(*task.operand(node.inputs[2]).constant, lanes), "bias");
  }
  buffers.prefetch = schedule.knob("prefetch");
  emit_nest(e, conv.nest, tile, buffers, n, g, ocg, item, lanes);
  Lowered lowered;
  lowered.stages.push_back(e.finish(lowered));
  return lowered;
}

}  // namespace

const Template conv2d_direct{"conv2d_direct", "dense 2-D convolution by register tiles", space, pick, lower, candidates,
                             estimate};

}  // namespace kilter
