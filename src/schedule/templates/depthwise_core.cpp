#include "schedule/templates/depthwise_core.h"

#include <algorithm>
#include <map>

#include "base/align.h"
#include "schedule/model/register_tile.h"
#include "schedule/templates/tile_split.h"
#include "schedule/templates/weight_stream.h"

namespace kilter {
namespace {

constexpr int64_t kUnrolledTaps = 9;  ///< kernels up to 3x3 are unrolled completely, larger ones row by row

/// Cycles of one row tile of `pixels`. Each product costs one multiply-add per pixel and one load per window and of
/// weights, and it takes at least the latency of a tap's dependency chain; each pixel costs one store. Units that are
/// half as wide as a register need two cycles to move it.
double tile_cycles(const DepthwiseNest& d, int64_t pixels, const CpuLimits& of_f32) {
  if (pixels == 0) return 0;
  const CpuLimits limits = d.operands.limits(of_f32);
  const double moves = limits.halves() ? 2 : 1;
  const auto count = static_cast<double>(pixels);
  const auto loads = static_cast<double>(ceil_div(pixels, d.sharing()) + d.sharing());
  const double tap = std::max({count / limits.fmas_per_cycle, loads * moves / limits.loads_per_cycle, limits.latency});
  return static_cast<double>(d.kernel_h * d.each * d.windows()) * tap + count * moves;
}

}  // namespace

Result<DepthwiseNest> depthwise_nest(const Node& conv, const TensorType& x, const TensorType& w, const TensorType& y,
                                     int32_t lanes) {
  if (x.shape.size() != 4) return Rejected{"rank of the input", "4", std::to_string(x.shape.size())};
  const int64_t groups = conv.int_attr("group", 1);
  const int64_t each = x.shape[1] / groups, out = y.shape[1] / groups;
  if (groups == 1 && (each > 1 || out > 1)) return not_for("groups", "more than one", "1");
  if (each != out || (each > 1 && (each >= lanes || lanes % each != 0))) {
    return Rejected{"channels per group", fmt::format("1 or a proper divisor of {}, the same in and out", lanes),
                    fmt::format("{} in, {} out", each, out)};
  }
  if (x.dtype != DType::f32) return Rejected{"element type", "f32", std::string(name(x.dtype))};
  const Window win = conv_window(conv, x.shape, w.shape);
  DepthwiseNest nest{.n = x.shape[0], .blocks = ceil_div(x.shape[1], lanes), .each = each};
  nest.kernel_h = w.shape[2], nest.kernel_w = w.shape[3];
  nest.dilation_h = win.dilations[0], nest.dilation_w = win.dilations[1];
  nest.step_h = win.strides[0], nest.step_w = win.strides[1];
  nest.first_h = -win.pads_begin[0], nest.first_w = -win.pads_begin[1];
  nest.out_h = y.shape[2], nest.out_w = y.shape[3];
  return nest;
}

Multiplicands depthwise_operands(const DepthwiseNest& nest, const TensorType& x, const Tensor& w, const TensorType& y,
                                 const CpuLimits& limits) {
  const bool fits = Multiplicands::stores_bytes(x, y.dtype) && nest.each == 1 && nest.dilation_w == 1 && fit_i8(w);
  return fits && limits.multiplies_bytes() ? Multiplicands::of_integers(limits) : Multiplicands{};
}

int64_t most_row_pixels(const DepthwiseNest& nest, const CpuLimits& limits) {
  return limits.vector_registers >= 32 && nest.each == 1 ? 14 : 8;
}

int64_t equal_parts(int64_t pixels, int64_t most) { return ceil_div(pixels, ceil_div(pixels, most)); }

int64_t pick_row_tile(const DepthwiseNest& nest, const CpuLimits& limits) {
  return equal_parts(nest.out_w, most_row_pixels(nest, limits));
}

double row_cycles(const DepthwiseNest& nest, int64_t tile, const CpuLimits& limits) {
  const TileSplit row(nest.out_w, tile, nest.overlap);
  return static_cast<double>(row.whole()) * tile_cycles(nest, tile, limits) + tile_cycles(nest, row.rest(), limits);
}

namespace {

Tensor pack_bytes(const Tensor& w, const DepthwiseNest& d, int32_t lanes) {
  const int64_t group = d.operands.group, width = lanes * group, taps = d.kernel_w;
  Tensor packed(DType::i8, {d.blocks * d.weight_vectors() * width});
  const float* from = w.data<float>();
  for (int64_t c = 0; c < w.shape()[0]; ++c) {
    int8_t* to = packed.data<int8_t>() + c / lanes * d.weight_vectors() * width + c % lanes * group;
    for (int64_t r = 0; r < d.kernel_h; ++r, from += taps) {
      for (int64_t window = 0; window < d.windows(); ++window) {
        for (int64_t output = 0; output < d.sharing(); ++output, to += width) {
          for (int64_t i = 0; i < group; ++i) {
            const int64_t s = window * group + i - output * d.step_w;
            to[i] = static_cast<int8_t>(s >= 0 && s < taps ? from[s] : 0);
          }
        }
      }
    }
  }
  return packed;
}

}  // namespace

Tensor pack_depthwise(const Tensor& w, const DepthwiseNest& d, int32_t lanes) {
  if (d.operands.group > 1) return pack_bytes(w, d, lanes);
  Tensor packed(DType::f32, {d.blocks * d.products() * lanes});
  const int64_t channels = w.shape()[0], row = d.kernel_w;
  const float* from = w.data<float>();
  for (int64_t c = 0; c < channels; ++c) {
    float* block = packed.data<float>() + c / lanes * d.products() * lanes + c % lanes;
    for (int64_t i = 0; i < d.each; ++i)
      for (int64_t r = 0; r < d.kernel_h; ++r)
        for (int64_t s = 0; s < row; ++s) block[((r * d.each + i) * row + s) * lanes] = *from++;
  }
  return packed;
}

void prefetch_weights(LoopBuilder& b, const DepthwiseNest& nest, const DepthwiseBuffers& buffers, const Expr& block,
                      const Expr& first, int64_t count, const CpuLimits& limits) {
  const int64_t lanes = lanes_of(limits), width = lanes * nest.operands.group;
  const Expr at = b.let("ahead", (block * Expr(nest.weight_vectors()) + first) * Expr(width));
  prefetch_lines(b, buffers.weights, at, count * width, limits.line_bytes);
  if (buffers.bias.id >= 0) prefetch_lines(b, buffers.bias, block * Expr(lanes), lanes, limits.line_bytes);
}

namespace {

class RowEmitter {
 public:
  RowEmitter(Emitter& e, const DepthwiseNest& d, const DepthwiseInput& input, const DepthwiseBuffers& buffers, Expr n,
             Expr block, Expr row)
      : e_(e),
        b_(e.b),
        d_(d),
        input_(input),
        buffers_(buffers),
        n_(std::move(n)),
        block_(std::move(block)),
        row_(std::move(row)),
        anchor_(e.task().node().outputs[0]),
        domain_(domain_of(e.task().graph->type(anchor_))),
        lanes_(domain_.block) {}

  void emit(const Expr& w0, int64_t pixels) {
    acc_.clear();
    const bool biased = buffers_.bias.id >= 0;
    for (int64_t p = 0; p < pixels; ++p) {
      acc_.push_back(b_.reg(
          "acc", biased ? b_.load(buffers_.bias, block_ * Expr(lanes_), lanes_) : imm(d_.operands.sum(), 0, lanes_)));
    }
    const auto row_at = input_.tile(w0);
    const int64_t width = lanes_ * d_.operands.group, count = d_.weight_vectors() / d_.kernel_h;
    const Expr w1 = b_.let("w1", block_ * Expr(d_.weight_vectors() * width));
    const auto row = [&](const Expr& r) {
      const Expr from = row_at(r);
      const auto weights = [&](int64_t i) { return w1 + (r * Expr(count) + Expr(i)) * Expr(width); };
      d_.operands.group > 1 ? multiply_windows(from, weights, pixels) : multiply_taps(from, weights, pixels);
    };
    if (d_.products() <= kUnrolledTaps) {
      for (int64_t r = 0; r < d_.kernel_h; ++r) row(Expr(r));
    } else {
      b_.loop("r", 0, d_.kernel_h, row);
    }
    const auto store = [&](const Expr& sum, const Site& at) { e_.epilogue({{anchor_, sum}}, domain_, at); };
    e_.begin_checks(pixels, {d_.operands.sum(), lanes_});
    for (int64_t p = 0; p < pixels; ++p) store(b_.get(acc_[static_cast<size_t>(p)]), site(w0 + Expr(p)));
    e_.end_checks(store);
  }

  /// The site of the outputs at pixel `w`.
  Site site(const Expr& w) const { return {{n_, block_, row_, w, Expr(0)}, 4, lanes_, {}}; }
  int32_t lanes() const { return lanes_; }

 private:
  using Weights = std::function<Expr(int64_t)>;  ///< the place of the i-th vector of weights of a row of taps

  /// Emits the products of a row of taps. Element `from` is under the first one.
  void multiply_taps(const Expr& from, const Weights& weights, int64_t pixels) {
    for (int64_t product = 0; product < d_.each * d_.kernel_w; ++product) {
      const int64_t channel = product / d_.kernel_w, s = product % d_.kernel_w;
      const Expr weight = b_.let("w", b_.load(buffers_.weights, weights(product), lanes_));
      for (int64_t p = 0; p < pixels; ++p) {
        const Expr x = b_.load(input_.buf, from + Expr((p * d_.step_w + s * d_.dilation_w) * input_.pixel), lanes_);
        const int32_t reg = acc_[static_cast<size_t>(p)];
        b_.set(reg, fma(spread(x, channel), weight, b_.get(reg)));
      }
    }
  }

  /// The same for bytes, a group of taps at a time.
  void multiply_windows(const Expr& from, const Weights& weights, int64_t pixels) {
    const int64_t group = d_.operands.group, sharing = d_.sharing();
    std::vector<Expr> shifted;
    for (int64_t i = 0; i < d_.windows() * sharing; ++i)
      shifted.push_back(b_.let("w", d_.operands.columns(b_, buffers_.weights, weights(i), lanes_)));
    const int64_t end = (pixels - 1) * d_.step_w + d_.kernel_w;
    std::map<int64_t, Expr> windows;
    for (int64_t p = 0; p < pixels; p += sharing) {
      for (int64_t i = 0; i < d_.windows() && p * d_.step_w + i * group < end; ++i) {
        const int64_t first = p * d_.step_w + i * group;
        Expr& x = windows[first];
        if (!x.defined()) x = b_.let("p", window(from, first, end));
        for (int64_t k = 0; k < std::min(sharing, pixels - p); ++k) {
          const int32_t reg = acc_[static_cast<size_t>(p + k)];
          b_.set(reg, d_.operands.multiply(x, shifted[static_cast<size_t>(i * sharing + k)], b_.get(reg)));
        }
      }
    }
  }

  /// The multiplicands of a group of pixels from pixel `first` on, one channel after another. Those from `end` on,
  /// whose weights are 0, are replaced by others, since they may lie outside of the buffer.
  Expr window(const Expr& from, int64_t first, int64_t end) const {
    const int64_t group = d_.operands.group, pixels = std::min(group, end - first);
    const int64_t before = std::min(group - pixels, first);  // pixels that are loaded before the first
    const auto width = static_cast<int32_t>(lanes_ * group);
    const int64_t loaded = before + pixels;
    const Expr mask = loaded < group ? first_lanes(Expr(loaded * lanes_), width) : Expr();
    const Expr bytes = b_.load_raw(input_.buf, from + Expr((first - before) * lanes_), width, 1, mask);
    std::vector<int32_t> picks;
    for (int32_t lane = 0; lane < lanes_; ++lane) {
      for (int64_t i = 0; i < group; ++i)
        picks.push_back(static_cast<int32_t>(std::min(i + before, group - 1)) * lanes_ + lane);
    }
    const Expr groups = shuffle(bytes, bytes, std::move(picks));
    return d_.operands.type == DType::i16 ? cast(DType::i16, groups) : groups;
  }

  /// Copies channel `channel` of each group into all lanes of the group.
  Expr spread(const Expr& x, int64_t channel) const {
    if (d_.each == 1) return x;
    std::vector<int32_t> picks;
    for (int64_t k = 0; k < lanes_; ++k) picks.push_back(static_cast<int32_t>(k / d_.each * d_.each + channel));
    return shuffle(x, x, std::move(picks));
  }

  Emitter& e_;
  LoopBuilder& b_;
  const DepthwiseNest& d_;
  const DepthwiseInput& input_;
  const DepthwiseBuffers& buffers_;
  Expr n_, block_, row_;
  std::vector<int32_t> acc_;
  ValueId anchor_;
  Domain domain_;
  int32_t lanes_;
};

}  // namespace

void emit_depthwise_row(Emitter& e, const DepthwiseNest& nest, int64_t tile, const DepthwiseInput& input,
                        const DepthwiseBuffers& buffers, const Expr& n, const Expr& block, const Expr& row) {
  RowEmitter rows(e, nest, input, buffers, n, block, row);
  const TileSplit split(nest.out_w, tile, nest.overlap && !e.sums_rows());
  e.begin_row(rows.lanes());
  e.b.loop("t", 0, split.whole(), [&](const Expr& t) { rows.emit(split.begin(e.b, t), tile); });
  const Expr rest(split.whole() * tile);
  if (nest.overlap && e.sums_rows())
    e.b.loop("w", rest, Expr(nest.out_w), [&](const Expr& w) { rows.emit(w, 1); });
  else if (split.rest() > 0)
    rows.emit(rest, split.rest());
  e.end_row(rows.site(Expr(0)));
}

}  // namespace kilter
