// Transposed convolution without zero stuffing: the outputs of one phase (position modulo the stride) are an ordinary
// convolution of the input with every stride-th tap, in reverse. One stage per phase. In depthwise convolutions,
// vectors run over channels.

#include <algorithm>

#include "base/align.h"
#include "ops/support/window.h"
#include "schedule/model/loop_model.h"
#include "schedule/templates/conv_core.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

/// One axis of one phase, with outputs phase, phase + stride, ... Output i reads inputs first + i + t, for t =
/// 0..taps-1, through filter taps last_tap - t * stride.
struct Phase {
  int64_t taps, first, last_tap, count;
};

Phase phase_of(int64_t kernel, int64_t stride, int64_t pad, int64_t out, int64_t phase) {
  const int64_t k0 = (phase + pad) % stride;
  const int64_t taps = k0 < kernel ? ceil_div(kernel - k0, stride) : 0;
  return {taps, (phase + pad - k0) / stride - (taps - 1), k0 + (taps - 1) * stride,
          phase < out ? ceil_div(out - phase, stride) : 0};
}

struct Transposed {
  Window win;
  int64_t in_channels, out_channels, groups;
  bool depthwise = false;
  bool overlap = false;  ///< Task::open
};

Result<Transposed> analyse(const Task& task, const CpuLimits& limits) {
  const Node& node = task.node();
  if (node.op->family != Family::conv_transpose) return not_for("operator family", "conv_transpose", node.op->name);
  const Operand& x = task.operand(node.inputs[0]);
  const Operand& w = task.operand(node.inputs[1]);
  const TensorType& y = task.graph->type(node.outputs[0]);
  const int32_t lanes = lanes_of(limits);
  if (auto rejected = check_conv_operands(task)) return *rejected;
  if (x.type.layout.block != lanes || y.layout.block != lanes) {
    return Rejected{"block of the layouts", std::to_string(lanes),
                    fmt::format("{} in, {} out", x.type.layout.block, y.layout.block)};
  }
  if (!task.prologue.empty()) return Rejected{"prologue", "none", std::to_string(task.prologue.size()) + " nodes"};
  if (auto rejected = check_elementwise(task)) return *rejected;
  Transposed t{conv_transpose_window(node, x.type.shape, w.type.shape),
               x.type.shape[1],
               y.shape[1],
               node.int_attr("group", 1),
               false,
               task.open};
  t.depthwise = t.groups > 1 && t.groups == t.in_channels && t.groups == t.out_channels;
  if (t.win.dilations != std::vector<int64_t>{1, 1})
    return Rejected{"dilation", "1,1", fmt::format("{},{}", t.win.dilations[0], t.win.dilations[1])};
  for (size_t d = 0; d < 2; ++d) {
    for (int64_t p = 0; p < t.win.strides[d]; ++p) {
      const Phase phase = phase_of(t.win.kernel[d], t.win.strides[d], t.win.pads_begin[d], t.win.out[d], p);
      if (phase.taps == 0 || phase.count == 0) continue;
      const int64_t before = -phase.first, after = phase.first + phase.count - 1 + phase.taps - 1 - (t.win.in[d] - 1);
      if (before > x.type.layout.halo[2 * d] || after > x.type.layout.halo[2 * d + 1]) {
        return Rejected{"halo of the input for the edges", fmt::format("{},{}", before, after),
                        fmt::format("{},{}", x.type.layout.halo[2 * d], x.type.layout.halo[2 * d + 1])};
      }
    }
  }
  return t;
}

ConvNest nest_of(const Transposed& t, const Phase& h, const Phase& w, int64_t phase_h, int64_t phase_w, int64_t batch,
                 int32_t lanes) {
  ConvNest n;
  n.n = batch;
  n.in_block = lanes;
  set_channels(n, t.in_channels, t.out_channels, t.groups, lanes);
  n.kernel_h = h.taps, n.kernel_w = w.taps;
  n.first_h = h.first, n.first_w = w.first;
  n.out_h = h.count, n.out_w = w.count;
  n.out_step_h = t.win.strides[0], n.out_step_w = t.win.strides[1];
  n.out_first_h = phase_h, n.out_first_w = phase_w;
  n.overlap = t.overlap;
  return n;
}

Stage dense_stage(const Task& task, const Transposed& t, const ConvNest& nest, const Phase& h, const Phase& w,
                  const CpuLimits& limits, Lowered& lowered) {
  const Node& node = task.node();
  const int32_t lanes = lanes_of(limits);
  const ConvTile tile = pick_tile(nest, limits);
  Tensor packed(DType::f32, {packed_bytes(nest, tile.vectors, lanes) / 4});
  const float* from = task.operand(node.inputs[1]).constant->data<float>();
  const int64_t out = t.out_channels / t.groups;
  pack_weights(nest, tile, lanes, packed.data<float>(), [&](int64_t g, int64_t k, int64_t c, int64_t r, int64_t s) {
    const int64_t kh = h.last_tap - r * t.win.strides[0], kw = w.last_tap - s * t.win.strides[1];
    const int64_t row = (g * nest.in_channels + c) * out + k % out;
    return from[(row * t.win.kernel[0] + kh) * t.win.kernel[1] + kw];
  });
  Emitter e(task, "conv_transpose");
  const Expr n = e.b.parallel("n", nest.n);
  const Expr g = nest.groups > 1 ? e.b.parallel("g", nest.groups) : Expr(0);
  const Expr ocg = e.b.parallel("ocg", nest.out_blocks / tile.vectors);
  const Expr item = e.b.parallel("item", nest_items(nest, tile));
  ConvBuffers buffers;
  buffers.input = node.inputs[0];
  buffers.output = node.outputs[0];
  e.input(buffers.input);
  buffers.weights = e.constant(std::move(packed), "w");
  buffers.bias = bias_of(e, node, lanes);
  emit_nest(e, nest, tile, buffers, n, g, ocg, item, limits);
  Stage stage = e.finish(lowered);
  const auto share = [&](int64_t all) { return all * nest.out_h * nest.out_w / (t.win.out[0] * t.win.out[1]); };
  const StageWork work{share(task.flops()), share(task.flops()), share(task.bytes())};
  stage.work = merged_work(nest, tile.vectors, lanes, work, share(task.operand(node.inputs[1]).constant->bytes()));
  return stage;
}

Stage depthwise_stage(const Task& task, const Transposed& t, const ConvNest& nest, const Phase& h, const Phase& w,
                      int32_t lanes, Lowered& lowered) {
  const Node& node = task.node();
  const Operand& x = task.operand(node.inputs[0]);
  const int64_t taps = nest.taps();
  const int64_t blocks = ceil_div(t.out_channels, lanes);
  Tensor packed(DType::f32, {std::max<int64_t>(blocks * taps * lanes, 1)});
  const float* from = task.operand(node.inputs[1]).constant->data<float>();
  for (int64_t c = 0; c < t.in_channels; ++c) {
    for (int64_t r = 0; r < nest.kernel_h; ++r) {
      for (int64_t s = 0; s < nest.kernel_w; ++s) {
        const int64_t kh = h.last_tap - r * t.win.strides[0], kw = w.last_tap - s * t.win.strides[1];
        packed.data<float>()[(c / lanes * taps + r * nest.kernel_w + s) * lanes + c % lanes] =
            from[(c * t.win.kernel[0] + kh) * t.win.kernel[1] + kw];
      }
    }
  }
  Emitter e(task, "conv_transpose_depthwise");
  LoopBuilder& b = e.b;
  const Expr n = b.parallel("n", nest.n);
  const Expr block = b.parallel("cb", blocks);
  const Expr row = b.parallel("h", nest.out_h);
  const Buf in = e.input(x.value);
  const Buf weights = e.constant(std::move(packed), "w");
  const Buf bias = bias_of(e, node, lanes);
  const Shape& strides = x.phys.strides;
  const Expr origin = b.let("x0", Expr(x.phys.offset) + n * Expr(strides[0]) + block * Expr(strides[1]) +
                                      (row + Expr(nest.first_h)) * Expr(strides[2]) + Expr(nest.first_w * strides[3]));
  const Domain domain = domain_of(task.graph->type(node.outputs[0]));
  b.loop("w", 0, nest.out_w, [&](const Expr& column) {
    Expr sum = bias.id >= 0 ? b.load(bias, block * Expr(lanes), lanes) : imm(DType::f32, 0, lanes);
    for (int64_t r = 0; r < nest.kernel_h; ++r) {
      for (int64_t s = 0; s < nest.kernel_w; ++s) {
        const Expr pixel =
            b.load(in, origin + column * Expr(strides[3]) + Expr(r * strides[2] + s * strides[3]), lanes);
        sum =
            fma(pixel, b.load(weights, block * Expr(taps * lanes) + Expr((r * nest.kernel_w + s) * lanes), lanes), sum);
      }
    }
    Site site{{n, block, row * Expr(nest.out_step_h) + Expr(nest.out_first_h),
               column * Expr(nest.out_step_w) + Expr(nest.out_first_w), Expr(0)},
              4,
              lanes,
              {}};
    e.epilogue({{node.outputs[0], b.let("sum", sum)}}, domain, site);
  });
  return e.finish(lowered);
}

/// Calls body(nest, phase of the rows, phase of the columns) for each phase that has outputs.
void for_phases(const Task& task, const Transposed& t, int32_t lanes,
                const std::function<void(const ConvNest&, const Phase&, const Phase&)>& body) {
  const int64_t batch = task.operand(task.node().inputs[0]).type.shape[0];
  for (int64_t p = 0; p < t.win.strides[0]; ++p) {
    for (int64_t q = 0; q < t.win.strides[1]; ++q) {
      const Phase h = phase_of(t.win.kernel[0], t.win.strides[0], t.win.pads_begin[0], t.win.out[0], p);
      const Phase w = phase_of(t.win.kernel[1], t.win.strides[1], t.win.pads_begin[1], t.win.out[1], q);
      if (h.count == 0 || w.count == 0) continue;
      body(nest_of(t, h, w, p, q, batch, lanes), h, w);
    }
  }
}

class ConvTransposed final : public Analysed {
 public:
  ConvTransposed(const Task& task, const CpuLimits& limits, Transposed transposed)
      : Analysed(task, limits), t_(std::move(transposed)) {}
  Result<Schedule> pick() const override { return Schedule{"conv_transpose", {}}; }
  std::vector<Schedule> candidates() const override { return {{"conv_transpose", {}}}; }

 private:
  /// Counts the loops of depthwise phases; dense phases use the model of convolutions.
  Estimate model(const Schedule& schedule) const override {
    if (t_.depthwise) return estimate_lowered(task(), emit(schedule), limits());
    Estimate all;
    for_phases(task(), t_, lanes_of(limits()), [&](const ConvNest& nest, const Phase&, const Phase&) {
      const Estimate phase = estimate_tile(nest, pick_tile(nest, limits()), limits());
      all.cycles += phase.cycles, all.tail += phase.tail * phase.cycles;
    });
    if (all.cycles > 0) all.tail /= all.cycles;
    return all;
  }

  Lowered emit(const Schedule&) const override {
    const int32_t lanes = lanes_of(limits());
    Lowered lowered;
    for_phases(task(), t_, lanes, [&](const ConvNest& nest, const Phase& h, const Phase& w) {
      lowered.stages.push_back(t_.depthwise ? depthwise_stage(task(), t_, nest, h, w, lanes, lowered)
                                            : dense_stage(task(), t_, nest, h, w, limits(), lowered));
    });
    return lowered;
  }

  const Transposed t_;
};

}  // namespace

const Template conv_transpose{"conv_transpose", "transposed convolution by output phases",
                              analyse_as<ConvTransposed, analyse>};

}  // namespace kilter
