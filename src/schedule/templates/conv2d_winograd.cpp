// Stride-1 convolution by Winograd's minimal filtering (winograd_core.h). Kernels of 3x3 need a quarter (m = 4) or 4/9
// (m = 2) of the multiplications; those of 1x3 and 3x1 need a half (m = 4) or 2/3 (m = 2), and those of 1x7 and 7x1
// need 4/7. Transforms and products are fused for each block of tiles, so that the values between them stay in cache:
//
//   v[xi][ic][tile]    B' d B of a block of tiles, all input channels
//   for each group of output channels:
//     q[xi][tile][oc]  products over the input channels, one for each place xi of a transformed tile, register-tiled
//     outputs          A' q A, bias, epilogue, clipped at the edges
//
// Values that are not finite, or huge, spread over their whole tile in the transforms. A tile whose values grow beyond
// kLargest in the output transform is therefore computed directly, with weights recovered from the transformed ones.
//
// If an image has few blocks, v is in the arena instead of scratch memory, and channels run in parallel.

#include <algorithm>
#include <array>

#include "base/align.h"
#include "ops/support/window.h"
#include "schedule/templates/conv_core.h"
#include "schedule/templates/templates.h"
#include "schedule/templates/winograd_block.h"

namespace kilter {
namespace {

constexpr int64_t kLeastChannels = 16;  // with fewer channels, the gain is small and the error is largest
constexpr int64_t kFewBlocks = 8;

Result<WinogradConv> analyse(const Task& task, const CpuLimits& limits) {
  const Node& node = task.node();
  if (node.op->family != Family::conv) return not_for("operator family", "conv", node.op->name);
  if (auto rejected = check_input_stored(task)) return *rejected;
  const Operand& x = task.operand(node.inputs[0]);
  const Operand& w = task.operand(node.inputs[1]);
  const TensorType& y = task.graph->type(node.outputs[0]);
  const int32_t lanes = lanes_of(limits);
  if (auto rejected = check_conv_operands(task)) return *rejected;
  if (y.dtype != DType::f32) return Rejected{"element type of the result", "f32", std::string(name(y.dtype))};
  const Window win = conv_window(node, x.type.shape, w.type.shape);
  const int64_t kernel_h = w.type.shape[2], kernel_w = w.type.shape[3];
  constexpr std::array<std::pair<int64_t, int64_t>, 5> kKernels{{{3, 3}, {1, 3}, {3, 1}, {1, 7}, {7, 1}}};
  if (std::ranges::count(kKernels, std::pair(kernel_h, kernel_w)) == 0)
    return Rejected{"kernel", "3x3, 1x3, 3x1, 1x7 or 7x1", fmt::format("{}x{}", kernel_h, kernel_w)};
  if (win.strides != std::vector<int64_t>{1, 1} || win.dilations != std::vector<int64_t>{1, 1})
    return Rejected{"strides and dilations", "1", "more"};
  if (node.int_attr("group", 1) != 1) return Rejected{"groups", "1", std::to_string(node.int_attr("group", 1))};
  if (x.type.layout.block != lanes || y.layout.block != lanes)
    return Rejected{"blocks of the layouts", std::to_string(lanes),
                    fmt::format("{} in, {} out", x.type.layout.block, y.layout.block)};
  if (auto rejected = check_elementwise(task)) return *rejected;
  if (auto rejected = check_halo(win, x.type)) return *rejected;
  WinogradConv c;
  c.direct = Multiplicands::of(x.type, w.type, y.dtype, limits);
  c.n = x.type.shape[0];
  c.in_channels = x.type.shape[1], c.out_channels = y.shape[1];
  c.in_blocks = ceil_div(c.in_channels, lanes), c.out_blocks = ceil_div(c.out_channels, lanes);
  c.kernel_h = kernel_h, c.kernel_w = kernel_w;
  c.out_h = y.shape[2], c.out_w = y.shape[3];
  c.pad_h = win.pads_begin[0], c.pad_w = win.pads_begin[1];
  c.last_row = x.type.shape[2] - 1 + win.pads_end[0], c.last_column = x.type.shape[3] - 1 + win.pads_end[1];
  return c;
}

int64_t weight_bytes(const WinogradConv& c, const WinogradTiling& p, int64_t lanes) {
  return c.places(p.m) * c.in_blocks * c.out_blocks * lanes * lanes * 4;
}

Schedule schedule_of(const WinogradTiling& p) {
  return {"conv2d_winograd",
          {{"m", p.m},
           {"vectors", p.vectors},
           {"tile", p.tile},
           {"count", p.count},
           {"split", p.split},
           {"prefetch", p.prefetch}}};
}

WinogradTiling tiling_of(const Schedule& schedule) {
  return {schedule.knob("m"),     schedule.knob("vectors"), schedule.knob("tile"),
          schedule.knob("count"), schedule.knob("split"),   schedule.knob("prefetch")};
}

/// Cycles of a kernel with `cycles` of arithmetic that streams `bytes` of weights `passes` times, the first time from
/// memory.
double streamed(double cycles, int64_t bytes, double passes, const CpuLimits& limits) {
  const double stream =
      static_cast<double>(bytes) * (1 / limits.memory_rate + (passes - 1) / reread_rate(bytes, limits));
  return beside(cycles, stream);
}

/// Cycles of one core. Products run at the multiply-add rate, but no step is shorter than the latency, and they overlap
/// with the weight stream; transforms cost their loads and stores.
Estimate predict(const WinogradConv& c, const WinogradTiling& p, const CpuLimits& limits) {
  const int64_t lanes = lanes_of(limits);
  const auto blocks = static_cast<double>(c.n * p.blocks(c));
  const auto places = static_cast<double>(c.places(p.m));
  const auto half = static_cast<double>(c.down(p.m).inputs() * c.across(p.m).outputs);
  const auto panels = static_cast<double>(c.in_channels * (c.out_blocks / p.vectors));
  // The first tiles of a block fetch a panel of weights from a farther level; streamed() counts that. The others reread
  // it from L1, or from L2, whose rate grows with the width of the units.
  const bool big = 4 * c.in_channels * p.vectors * limits.vector_bytes > 3 * limits.l1_bytes;
  const double step = step_cycles(p.tile, p.vectors, limits) * spilling(p.tile, p.vectors, limits);
  const double again =
      big ? static_cast<double>(p.vectors * limits.vector_bytes) / (limits.l2_rate * limits.fmas_per_cycle) : 0;
  const double products = blocks * places * panels * (step + static_cast<double>(p.count - 1) * beside(step, again));
  const auto tiles = static_cast<double>(p.block()) * blocks;
  const double transforms =
      tiles * 2.5 * (places * static_cast<double>(c.in_blocks) + half * static_cast<double>(c.out_blocks));
  // Transformed inputs are written and reread, block by block. With a second stage, the inputs of all blocks are
  // written first, and each write also fetches its line (read for ownership).
  const int64_t v_bytes = p.v_elems(c, lanes) * 4 * (p.split != 0 ? c.n * p.blocks(c) : 1);
  const double v_again = static_cast<double>(v_bytes) / reread_rate(v_bytes, limits) * (p.split != 0 ? 3 : blocks);
  return {streamed(products, weight_bytes(c, p, lanes), blocks, limits) + transforms + v_again,
          1 - static_cast<double>(c.n * c.tiles(p.m)) / tiles, weight_bytes(c, p, lanes)};
}

/// Cycles of direct convolution at the rate of its tiles.
double direct_cycles(const WinogradConv& c, const CpuLimits& limits) {
  const int64_t lanes = lanes_of(limits);
  const int64_t taps = c.kernel_h * c.kernel_w;
  const auto steps = static_cast<double>(c.n * c.out_h * c.out_w * c.out_blocks * c.in_channels * taps) /
                     static_cast<double>(c.direct.group);
  const double products = steps / (0.95 * c.direct.limits(limits).fmas_per_cycle);
  return streamed(products, c.in_blocks * c.out_blocks * lanes * lanes * taps * c.direct.bytes(), 1, limits);
}

std::vector<WinogradTiling> tilings(const WinogradConv& c, const CpuLimits& limits) {
  std::vector<WinogradTiling> all;
  for (const int64_t m : {4, 2}) {
    if (!c.known(m) || c.tiles(m) < limits.winograd_tiles) continue;
    const int64_t tiles = c.tiles(m);
    for (const int64_t v : {2, 1, 4}) {
      const int64_t most = register_rows(v, limits);
      if (c.out_blocks % v != 0 || most < 1) continue;
      const int64_t tile = ceil_div(tiles, ceil_div(tiles, most));
      for (const int64_t count : {1, 2, 3, 4}) {
        if (tile * (count - 1) >= tiles) break;
        WinogradTiling p{m, v, tile, count, 0};
        p.split = c.n * p.blocks(c) < kFewBlocks ? 1 : 0;
        p.prefetch = pick_prefetch(weight_bytes(c, p, lanes_of(limits)), limits);
        all.push_back(p);
      }
    }
  }
  return all;
}

Packing pack(const Task& task, const WinogradConv& c, const WinogradTiling& p, int64_t lanes) {
  const ValueId w = task.node().inputs[1];
  const WinogradFilters filters{c.out_channels,    c.in_channels,      c.kernel_h, c.kernel_w, p.m,
                                p.vectors * lanes, c.in_blocks * lanes};
  Packing made = packed_by(filters, w, fmt::format("winograd m={} vectors={} lanes={}", p.m, p.vectors, lanes),
                           DType::f32, *task.operand(w).constant);
  require(made.bytes() == weight_bytes(c, p, lanes), "transformed filters of {} bytes; the model expects {}",
          made.bytes(), weight_bytes(c, p, lanes));
  return made;
}

struct Operations {
  int64_t inputs = 0, products = 0, outputs = 0;
};

Operations operations(const WinogradConv& c, const WinogradTiling& p) {
  const WinogradTransform &down = c.down(p.m), &across = c.across(p.m);
  const int64_t tiles = c.n * c.tiles(p.m);
  return {tiles * c.in_channels *
              (across.inputs() * input_transform_flops(down) + down.inputs() * input_transform_flops(across)),
          tiles * c.places(p.m) * c.in_channels * c.out_channels * 2,
          tiles * c.out_channels *
              (across.inputs() * output_transform_flops(down) + down.outputs * output_transform_flops(across))};
}

/// Bytes of the task with the transformed weights in place of the original ones.
int64_t bytes_of(const Task& task, const WinogradConv& c, const WinogradTiling& p, int64_t lanes) {
  return task.bytes() - task.operand(task.node().inputs[1]).constant->bytes() + weight_bytes(c, p, lanes);
}

/// The operands that both forms (split = 0 and split = 1) need besides v.
struct Operands {
  Buf weights, bias, q, temp;
};

Operands bind(Emitter& e, const WinogradConv& c, const WinogradTiling& p, const CpuLimits& limits) {
  const int32_t lanes = lanes_of(limits);
  const Node& node = e.task().node();
  Operands o;
  o.weights = e.constant(pack(e.task(), c, p, lanes), "u");
  o.bias = bias_of(e, node, lanes);
  o.q = e.b.scratch("q", DType::f32, c.places(p.m) * p.q_place(lanes));
  o.temp = e.b.scratch("temp", DType::f32, c.places(p.m) * lanes);
  return o;
}

void emit_group(WinogradBlock& block, const Buf& v, const Expr& base, const Expr& group, const Operands& o) {
  block.multiply(v, base, group, o.weights, o.q);
  block.finish_outputs(group, o.weights, o.q, o.bias, o.temp);
}

void lower_fused(Lowered& out, const Task& task, const WinogradConv& c, const WinogradTiling& p,
                 const CpuLimits& limits) {
  const int32_t lanes = lanes_of(limits);
  Emitter e(task, "conv2d_winograd");
  const Expr n = e.b.parallel("n", c.n);
  const Expr index = e.b.parallel("block", p.blocks(c));
  e.input(task.node().inputs[0]);
  const Operands o = bind(e, c, p, limits);
  const Buf v = e.b.scratch("v", DType::f32, p.v_elems(c, lanes));
  WinogradBlock block(e, c, p, limits, n, index);
  e.b.loop("icb", 0, c.in_blocks, [&](const Expr& icb) { block.transform_inputs(v, 0, icb, o.temp); });
  e.b.loop("group", 0, c.out_blocks / p.vectors, [&](const Expr& group) { emit_group(block, v, 0, group, o); });
  out.stages.push_back(e.finish(out));
  const Operations all = operations(c, p);
  out.stages.back().work =
      StageWork{all.inputs + all.products + all.outputs, task.flops(), bytes_of(task, c, p, lanes)};
}

void lower_split(Lowered& out, const Task& task, const WinogradConv& c, const WinogradTiling& p,
                 const CpuLimits& limits) {
  const int32_t lanes = lanes_of(limits);
  const int64_t each = p.v_elems(c, lanes), all = each * c.n * p.blocks(c);
  const Operations done = operations(c, p);
  const TensorType& x = task.operand(task.node().inputs[0]).type;
  const int64_t x_bytes = elems(x.shape) * stored_bytes(x);
  out.temp_bytes.push_back(all * 4);
  {
    Emitter e(task, "conv2d_winograd_inputs");
    const Expr n = e.b.parallel("n", c.n);
    const Expr index = e.b.parallel("block", p.blocks(c));
    const Expr icb = e.b.parallel("icb", c.in_blocks);
    e.input(task.node().inputs[0]);
    const Buf v = e.temp(0, DType::f32, all, true, "v");
    const Buf temp = e.b.scratch("temp", DType::f32, c.places(p.m) * lanes);
    WinogradBlock block(e, c, p, limits, n, index);
    block.transform_inputs(v, (n * Expr(p.blocks(c)) + index) * Expr(each), icb, temp);
    out.stages.push_back(e.finish(out));
    out.stages.back().work = StageWork{done.inputs, 0, x_bytes + all * 4};
  }
  Emitter e(task, "conv2d_winograd");
  const Expr n = e.b.parallel("n", c.n);
  const Expr index = e.b.parallel("block", p.blocks(c));
  const Expr group = e.b.parallel("group", c.out_blocks / p.vectors);
  const Buf v = e.temp(0, DType::f32, all, false, "v");
  const Operands o = bind(e, c, p, limits);
  e.input(task.node().inputs[0]);
  WinogradBlock block(e, c, p, limits, n, index);
  emit_group(block, v, (n * Expr(p.blocks(c)) + index) * Expr(each), group, o);
  out.stages.push_back(e.finish(out));
  out.stages.back().work =
      StageWork{done.products + done.outputs, task.flops(), bytes_of(task, c, p, lanes) - x_bytes + all * 4};
}

/// The figures come from doc/accuracy.md.
std::string_view approximates(const Schedule& schedule) {
  return schedule.knob("m") == 4
             ? "largest error 5.5 u of the largest sum of magnitudes (u = 2^-24, 64 channels, measured), at most (64 + "
               "sqrt(channels)) u; rms error 8.0e-7 of the rms result"
             : "largest error 1.5 u of the largest sum of magnitudes (u = 2^-24, 64 channels, measured; 7 taps: 5.9 "
               "u), at most (16 + sqrt(channels)) u; rms error 2.7e-7 of the rms result (7 taps: 8.3e-7)";
}

class Winograd final : public Analysed {
 public:
  Winograd(const Task& task, const CpuLimits& limits, const WinogradConv& conv) : Analysed(task, limits), c_(conv) {}

  std::vector<Knob> space() const override {
    std::vector<Knob> space{{"m", {}},     {"vectors", {}},   {"tile", {}},
                            {"count", {}}, {"split", {0, 1}}, prefetch_knob()};
    for (const int64_t m : {2, 4}) {
      if (c_.known(m)) space[0].values.push_back(m);
    }
    for (int64_t v = 1; v <= std::min<int64_t>(8, c_.out_blocks); ++v) {
      if (c_.out_blocks % v == 0) space[1].values.push_back(v);
    }
    for (int64_t t = 1; t <= std::min(c_.tiles(2), register_rows(1, limits())); ++t) space[2].values.push_back(t);
    for (int64_t k = 1; k <= std::min<int64_t>(c_.tiles(2), 16); ++k) space[3].values.push_back(k);
    return space;
  }
  Result<Schedule> pick() const override {
    if (std::min(c_.in_channels, c_.out_channels) < kLeastChannels)
      return Rejected{"channels in and out", "16 or more", fmt::format("{}, {}", c_.in_channels, c_.out_channels)};
    std::optional<WinogradTiling> best;
    double least = 0;
    for (const WinogradTiling& p : tilings(c_, limits())) {
      const double cycles = predict(c_, p, limits()).cycles;
      // Two vectors and few tiles use the least cache, so other tilings must be clearly better.
      if (best && cycles >= least * 0.97) continue;
      best = p, least = cycles;
    }
    if (!best) return Rejected{"tiles of an image", "13 or more", std::to_string(c_.tiles(2))};
    if (const double direct = direct_cycles(c_, limits()); least > 0.9 * direct)
      return Rejected{"predicted cycles", fmt::format("{:.0f} (9/10 of direct convolution)", 0.9 * direct),
                      fmt::format("{:.0f}", least)};
    return schedule_of(*best);
  }
  std::vector<Schedule> candidates() const override {
    std::vector<Schedule> all;
    for (const WinogradTiling& p : tilings(c_, limits())) all.push_back(schedule_of(p));
    return all;
  }

 private:
  std::optional<Rejected> conflict(const Schedule& schedule) const override {
    const WinogradTiling p = tiling_of(schedule);
    const int64_t most = register_rows(p.vectors, limits());
    if (p.tile <= most) return std::nullopt;
    return Rejected{fmt::format("register tile (tiles with {} vectors each)", p.vectors), std::to_string(most),
                    std::to_string(p.tile)};
  }
  Estimate model(const Schedule& schedule) const override { return predict(c_, tiling_of(schedule), limits()); }
  Lowered emit(const Schedule& schedule) const override {
    const WinogradTiling p = tiling_of(schedule);
    Lowered lowered;
    (p.split != 0 ? lower_split : lower_fused)(lowered, task(), c_, p, limits());
    return lowered;
  }

  const WinogradConv c_;
};

}  // namespace

const Template conv2d_winograd{"conv2d_winograd", "convolution of stride 1 with fewer multiplications (Winograd)",
                               analyse_as<Winograd, analyse>, approximates};

}  // namespace kilter
