#include "schedule/depthwise_core.h"

#include <algorithm>

#include "schedule/register_tile.h"
#include "schedule/weight_stream.h"

namespace kilter {
namespace {

constexpr int64_t kUnrolledTaps = 9;  ///< kernels up to 3x3 are unrolled whole, larger ones row by row

/// Cycles of one row tile of `pixels`: a load and a multiply-add for each tap and pixel and a load of each tap's
/// weights, at least the latency of the chain of a tap; one store a pixel. Units that are half as wide as a register
/// move it in two cycles.
double tile_cycles(const DepthwiseNest& d, int64_t pixels, const TargetLimits& limits) {
  if (pixels == 0) return 0;
  constexpr double kLatency = 4;
  const double moves = limits.halves() ? 2 : 1;
  const auto count = static_cast<double>(pixels);
  const double tap = std::max({count / limits.fmas_per_cycle, (count + 1) * moves / limits.loads_per_cycle, kLatency});
  return static_cast<double>(d.taps()) * tap + count * moves;
}

}  // namespace

Answer<DepthwiseNest> depthwise_nest(const Node& conv, const TensorType& x, const TensorType& w, const TensorType& y,
                                     int32_t lanes) {
  if (x.shape.size() != 4) return Rejected{"rank of the input", "4", std::to_string(x.shape.size())};
  const int64_t groups = conv.int_attr("group", 1);
  if (groups != x.shape[1] || groups != y.shape[1]) {
    return Rejected{"groups = input channels = output channels", std::to_string(groups),
                    fmt::format("{} in, {} out", x.shape[1], y.shape[1])};
  }
  if (x.dtype != DType::f32) return Rejected{"element type", "f32", std::string(name(x.dtype))};
  const Window win = conv_window(conv, x.shape, w.shape);
  return DepthwiseNest{x.shape[0],         ceil_div(groups, lanes), w.shape[2],     w.shape[3],
                       win.dilations[0],   win.dilations[1],        win.strides[0], win.strides[1],
                       -win.pads_begin[0], -win.pads_begin[1],      y.shape[2],     y.shape[3]};
}

int64_t most_row_pixels(const TargetLimits& limits) { return limits.vector_registers >= 32 ? 14 : 8; }

int64_t pick_row_tile(const DepthwiseNest& nest, const TargetLimits& limits) {
  return ceil_div(nest.out_w, ceil_div(nest.out_w, most_row_pixels(limits)));
}

double row_cycles(const DepthwiseNest& nest, int64_t tile, const TargetLimits& limits) {
  return static_cast<double>(nest.out_w / tile) * tile_cycles(nest, tile, limits) +
         tile_cycles(nest, nest.out_w % tile, limits);
}

Tensor pack_depthwise(const Tensor& w, const DepthwiseNest& d, int32_t lanes) {
  const int64_t taps = d.taps();
  Tensor packed(DType::f32, {d.blocks * taps * lanes});
  const int64_t channels = w.shape()[0];
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t t = 0; t < taps; ++t)
      packed.data<float>()[(c / lanes * taps + t) * lanes + c % lanes] = w.data<float>()[c * taps + t];
  }
  return packed;
}

void prefetch_taps(LoopBuilder& b, const DepthwiseNest& nest, const DepthwiseBuffers& buffers, const Expr& block,
                   const Expr& first, int64_t count, int32_t lanes) {
  const Expr at = b.let("ahead", (block * Expr(nest.taps()) + first) * Expr(lanes));
  prefetch_lines(b, buffers.weights, at, count * lanes);
  if (buffers.bias.id >= 0) prefetch_lines(b, buffers.bias, block * Expr(lanes), lanes);
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
    std::vector<int32_t> acc;
    const bool biased = buffers_.bias.id >= 0;
    for (int64_t p = 0; p < pixels; ++p) {
      acc.push_back(
          b_.reg("acc", biased ? b_.load(buffers_.bias, block_ * Expr(lanes_), lanes_) : imm(DType::f32, 0, lanes_)));
    }
    const auto row_at = input_.tile(w0);
    const Expr w1 = b_.let("w1", block_ * Expr(d_.taps() * lanes_));
    const auto row = [&](const Expr& r) {
      const Expr from = row_at(r);
      for (int64_t s = 0; s < d_.kernel_w; ++s) {
        const Expr weight =
            b_.let("w", b_.load(buffers_.weights, w1 + (r * Expr(d_.kernel_w) + Expr(s)) * Expr(lanes_), lanes_));
        for (int64_t p = 0; p < pixels; ++p) {
          const Expr at = from + Expr((p * d_.step_w + s * d_.dilation_w) * input_.pixel);
          const int32_t reg = acc[static_cast<size_t>(p)];
          b_.set(reg, fma(b_.load(input_.buf, at, lanes_), weight, b_.get(reg)));
        }
      }
    };
    if (d_.taps() <= kUnrolledTaps) {
      for (int64_t r = 0; r < d_.kernel_h; ++r) row(Expr(r));
    } else {
      b_.loop("r", 0, d_.kernel_h, row);
    }
    for (int64_t p = 0; p < pixels; ++p) {
      Site site{{n_, block_, row_, w0 + Expr(p), Expr(0)}, 4, lanes_, {}};
      e_.epilogue({{anchor_, b_.get(acc[static_cast<size_t>(p)])}}, domain_, site);
    }
  }

 private:
  Emitter& e_;
  LoopBuilder& b_;
  const DepthwiseNest& d_;
  const DepthwiseInput& input_;
  const DepthwiseBuffers& buffers_;
  Expr n_, block_, row_;
  ValueId anchor_;
  Domain domain_;
  int32_t lanes_;
};

}  // namespace

void emit_depthwise_row(Emitter& e, const DepthwiseNest& nest, int64_t tile, const DepthwiseInput& input,
                        const DepthwiseBuffers& buffers, const Expr& n, const Expr& block, const Expr& row) {
  RowEmitter rows(e, nest, input, buffers, n, block, row);
  const int64_t full = nest.out_w / tile;
  e.b.loop("t", 0, full, [&](const Expr& t) { rows.emit(t * Expr(tile), tile); });
  if (nest.out_w % tile != 0) rows.emit(Expr(full * tile), nest.out_w % tile);
}

}  // namespace kilter
