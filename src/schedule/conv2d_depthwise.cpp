// Depthwise convolution (one input and one output channel per group): vectors run over channels, a register tile over
// the pixels of a row; padding lies in the input's halo.

#include <algorithm>

#include "ops/window.h"
#include "schedule/conv_core.h"
#include "schedule/templates.h"

namespace kilter {
namespace {

struct Depthwise {
  int64_t n, blocks, kernel_h, kernel_w, dilation_h, dilation_w, step_h, step_w, first_h, first_w, out_h, out_w;
};

constexpr int64_t kUnrolledTaps = 9;  ///< kernels up to 3x3 are unrolled whole, larger ones row by row

Answer<Depthwise> analyse(const Task& task, const TargetLimits& limits) {
  const Node& node = task.node();
  if (node.op->family != Family::conv) return Rejected{"operator family", "conv", std::string(node.op->name)};
  const Operand& x = task.operand(node.inputs[0]);
  const Operand& w = task.operand(node.inputs[1]);
  const TensorType& y = task.graph->type(node.outputs[0]);
  const int32_t lanes = lanes_of(limits);
  if (x.type.shape.size() != 4) return Rejected{"rank of the input", "4", std::to_string(x.type.shape.size())};
  const int64_t groups = node.int_attr("group", 1);
  if (groups != x.type.shape[1] || groups != y.shape[1]) {
    return Rejected{"groups = input channels = output channels", std::to_string(groups),
                    fmt::format("{} in, {} out", x.type.shape[1], y.shape[1])};
  }
  if (x.type.dtype != DType::f32) return Rejected{"element type", "f32", std::string(name(x.type.dtype))};
  if (w.constant == nullptr) return Rejected{"weights", "constant", "computed at run time"};
  if (node.inputs.size() > 2 && node.inputs[2] != kNone && task.operand(node.inputs[2]).constant == nullptr) {
    return Rejected{"bias", "constant", "computed at run time"};
  }
  if (y.layout.block != lanes || x.type.layout.block != lanes) {
    return Rejected{"block of the layouts", std::to_string(lanes),
                    fmt::format("{} in, {} out", x.type.layout.block, y.layout.block)};
  }
  if (!task.prologue.empty()) return Rejected{"prologue", "none", std::to_string(task.prologue.size()) + " nodes"};
  if (auto rejected = check_elementwise(task)) return *rejected;
  const Window win = conv_window(node, x.type.shape, w.type.shape);
  if (auto rejected = check_halo(win, x.type)) return *rejected;
  return Depthwise{x.type.shape[0],    (groups + lanes - 1) / lanes,
                   w.type.shape[2],    w.type.shape[3],
                   win.dilations[0],   win.dilations[1],
                   win.strides[0],     win.strides[1],
                   -win.pads_begin[0], -win.pads_begin[1],
                   y.shape[2],         y.shape[3]};
}

int64_t most_pixels(const TargetLimits& limits) { return limits.vector_registers >= 32 ? 14 : 8; }

std::vector<Knob> knobs(const Depthwise& d, const TargetLimits& limits) {
  Knob tile{"tile", {}};
  for (int64_t t = 1; t <= std::min(d.out_w, most_pixels(limits)); ++t) tile.values.push_back(t);
  return {tile};
}

Answer<std::vector<Knob>> space(const Task& task, const TargetLimits& limits) {
  auto d = analyse(task, limits);
  if (auto* rejected = std::get_if<Rejected>(&d)) return *rejected;
  return knobs(std::get<Depthwise>(d), limits);
}

Answer<Schedule> pick(const Task& task, const TargetLimits& limits) {
  auto d = analyse(task, limits);
  if (auto* rejected = std::get_if<Rejected>(&d)) return *rejected;
  const int64_t width = std::get<Depthwise>(d).out_w;
  const int64_t count = (width + most_pixels(limits) - 1) / most_pixels(limits);
  return Schedule{"conv2d_depthwise", {{"tile", (width + count - 1) / count}}};
}

/// Cycles of one row tile of `pixels`: a load and a multiply-add for each tap and pixel and a load of each tap's
/// weights on two ports each, at least the latency of the chain of a tap; one store a pixel.
double tile_cycles(const Depthwise& d, int64_t pixels) {
  if (pixels == 0) return 0;
  const double tap = std::max(static_cast<double>(pixels + 1) / 2, 4.0);
  return static_cast<double>(d.kernel_h * d.kernel_w) * tap + static_cast<double>(pixels);
}

std::vector<Schedule> candidates(const Task& task, const TargetLimits& limits) {
  std::vector<Schedule> all;
  auto d = analyse(task, limits);
  if (std::holds_alternative<Rejected>(d)) return all;
  for (int64_t tile : knobs(std::get<Depthwise>(d), limits)[0].values)
    all.push_back({"conv2d_depthwise", {{"tile", tile}}});
  return all;
}

Answer<Estimate> estimate(const Task& task, const Schedule& schedule, const TargetLimits& limits) {
  auto analysed = analyse(task, limits);
  if (auto* rejected = std::get_if<Rejected>(&analysed)) return *rejected;
  const Depthwise& d = std::get<Depthwise>(analysed);
  if (auto rejected = check_knobs(schedule, knobs(d, limits))) return *rejected;
  const int64_t tile = schedule.knob("tile");
  const double row = static_cast<double>(d.out_w / tile) * tile_cycles(d, tile) + tile_cycles(d, d.out_w % tile);
  const double full = static_cast<double>(d.out_w) / static_cast<double>(tile) * tile_cycles(d, tile);
  const auto channels = static_cast<double>(task.graph->type(task.node().outputs[0]).shape[1]);
  const double filled = channels / static_cast<double>(d.blocks * lanes_of(limits));
  return Estimate{static_cast<double>(d.n * d.blocks * d.out_h) * row, 1 - std::min(full / row, 1.0) * filled};
}

/// [block][r][s][lane]
Tensor pack(const Tensor& w, const Depthwise& d, int32_t lanes) {
  const int64_t taps = d.kernel_h * d.kernel_w;
  Tensor packed(DType::f32, {d.blocks * taps * lanes});
  const int64_t channels = w.shape()[0];
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t t = 0; t < taps; ++t)
      packed.data<float>()[(c / lanes * taps + t) * lanes + c % lanes] = w.data<float>()[c * taps + t];
  }
  return packed;
}

class RowEmitter {
 public:
  RowEmitter(Emitter& e, const Depthwise& d, Buf weights, Buf bias, Expr n, Expr block, Expr row, int32_t lanes)
      : e_(e),
        b_(e.b),
        d_(d),
        weights_(weights),
        bias_(bias),
        n_(std::move(n)),
        block_(std::move(block)),
        row_(std::move(row)),
        lanes_(lanes) {
    const Node& node = e.task().node();
    x_ = e.input(node.inputs[0]);
    const Operand& x = e.task().operand(node.inputs[0]);
    strides_ = x.phys.strides;
    origin_ =
        b_.let("x0", Expr(x.phys.offset) + n_ * Expr(strides_[0]) + block_ * Expr(strides_[1]) +
                         (row_ * Expr(d.step_h) + Expr(d.first_h)) * Expr(strides_[2]) + Expr(d.first_w * strides_[3]));
  }

  void emit(const Expr& w0, int64_t pixels) {
    std::vector<int32_t> acc;
    for (int64_t p = 0; p < pixels; ++p) {
      acc.push_back(
          b_.reg("acc", bias_.id >= 0 ? b_.load(bias_, block_ * Expr(lanes_), lanes_) : imm(DType::f32, 0, lanes_)));
    }
    const Expr x1 = b_.let("x1", origin_ + w0 * Expr(d_.step_w * strides_[3]));
    const Expr w1 = b_.let("w1", block_ * Expr(d_.kernel_h * d_.kernel_w * lanes_));
    const auto row = [&](const Expr& r) {
      for (int64_t s = 0; s < d_.kernel_w; ++s) {
        const Expr weight =
            b_.let("w", b_.load(weights_, w1 + (r * Expr(d_.kernel_w) + Expr(s)) * Expr(lanes_), lanes_));
        for (int64_t p = 0; p < pixels; ++p) {
          const Expr at =
              x1 + r * Expr(d_.dilation_h * strides_[2]) + Expr((p * d_.step_w + s * d_.dilation_w) * strides_[3]);
          const int32_t reg = acc[static_cast<size_t>(p)];
          b_.set(reg, fma(b_.load(x_, at, lanes_), weight, b_.get(reg)));
        }
      }
    };
    if (d_.kernel_h * d_.kernel_w <= kUnrolledTaps) {
      for (int64_t r = 0; r < d_.kernel_h; ++r) row(Expr(r));
    } else {
      b_.loop("r", 0, d_.kernel_h, row);
    }
    const ValueId anchor = e_.task().node().outputs[0];
    const Domain domain = domain_of(e_.task().graph->type(anchor));
    for (int64_t p = 0; p < pixels; ++p) {
      Site site{{n_, block_, row_, w0 + Expr(p), Expr(0)}, 4, lanes_, {}};
      e_.epilogue({{anchor, b_.get(acc[static_cast<size_t>(p)])}}, domain, site);
    }
  }

 private:
  Emitter& e_;
  LoopBuilder& b_;
  const Depthwise& d_;
  Buf weights_, bias_, x_;
  Expr n_, block_, row_;
  int32_t lanes_;
  Shape strides_;
  Expr origin_;
};

Answer<Lowered> lower(const Task& task, const Schedule& schedule, const TargetLimits& limits) {
  auto analysed = analyse(task, limits);
  if (auto* rejected = std::get_if<Rejected>(&analysed)) return *rejected;
  const Depthwise& d = std::get<Depthwise>(analysed);
  if (auto rejected = check_knobs(schedule, knobs(d, limits))) return *rejected;
  const int64_t tile = schedule.knob("tile");
  const int32_t lanes = lanes_of(limits);
  const Node& node = task.node();

  Emitter e(task, "conv2d_depthwise");
  const Expr n = e.b.parallel("n", d.n);
  const Expr block = e.b.parallel("cb", d.blocks);
  const Expr row = e.b.parallel("h", d.out_h);
  e.input(node.inputs[0]);
  const Buf weights = e.constant(pack(*task.operand(node.inputs[1]).constant, d, lanes), "w");
  Buf bias;
  if (node.inputs.size() > 2 && node.inputs[2] != kNone) {
    bias = e.constant(pad_vector(*task.operand(node.inputs[2]).constant, lanes), "bias");
  }
  RowEmitter rows(e, d, weights, bias, n, block, row, lanes);
  const int64_t full = d.out_w / tile;
  e.b.loop("t", 0, full, [&](const Expr& t) { rows.emit(t * Expr(tile), tile); });
  if (d.out_w % tile != 0) rows.emit(Expr(full * tile), d.out_w % tile);
  Lowered lowered;
  lowered.stages.push_back(e.finish(lowered));
  return lowered;
}

}  // namespace

const Template conv2d_depthwise{
    "conv2d_depthwise", "depthwise 2-D convolution by rows of pixels", space, pick, lower, candidates, estimate};

}  // namespace kilter
