// Max and average pooling of blocked images, with vectors over channels. Taps outside the image are skipped. Columns
// whose windows lie inside are computed in a loop; edge columns, and the taps of a row, are unrolled if they are few.

#include <algorithm>
#include <limits>

#include "base/align.h"
#include "ops/support/window.h"
#include "schedule/emit.h"
#include "schedule/model/loop_model.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

constexpr int64_t kMaxTaps = 16;         ///< most taps in a window row that are unrolled
constexpr int64_t kMaxEdgeColumns = 16;  ///< most edge columns that are unrolled

struct Pool {
  Window win;
  bool maximum = false, count_padding = false;
  Range columns = {};   ///< output columns whose windows lie inside
  bool looped = false;  ///< taps and edge columns run in loops
  bool misses = false;  ///< some windows lie entirely outside the image
};

bool misses(const Window& w) {
  for (size_t axis = 0; axis < w.rank(); ++axis) {
    for (int64_t out = 0; out < w.out[axis]; ++out) {
      bool hit = false;
      for (int64_t tap = 0; tap < w.kernel[axis] && !hit; ++tap) {
        const int64_t at = w.source(axis, out, tap);
        hit = at >= 0 && at < w.in[axis];
      }
      if (!hit) return true;
    }
  }
  return false;
}

Result<Pool> analyse(const Task& task, const CpuLimits& limits) {
  const Node& node = task.node();
  const bool maximum = node.op->combiner == Combiner::max;
  if (node.op->family != Family::pool || node.op->combiner == Combiner::none)
    return not_for("operator", "MaxPool, AveragePool", node.op->name);
  if (node.outputs.size() > 1 && node.outputs[1] != kNone) return Rejected{"outputs", "1", "2 (indices)"};
  const Operand& x = task.operand(node.inputs[0]);
  const TensorType& y = task.graph->type(node.outputs[0]);
  const int32_t lanes = lanes_of(limits);
  if (x.type.dtype != DType::f32) return Rejected{"element type", "f32", std::string(name(x.type.dtype))};
  if (x.type.layout.block != lanes || y.layout.block != lanes) {
    return Rejected{"block of the layouts", std::to_string(lanes),
                    fmt::format("{} in, {} out", x.type.layout.block, y.layout.block)};
  }
  if (!task.prologue.empty()) return Rejected{"prologue", "none", std::to_string(task.prologue.size()) + " nodes"};
  if (auto rejected = check_elementwise(task)) return *rejected;
  Pool p{pool_window(node, x.type.shape), maximum, node.int_attr("count_include_pad", 0) != 0};
  const Window& w = p.win;
  const Range first = inside(w.out[1], w.strides[1], -w.pads_begin[1], w.in[1]);
  const Range last = inside(w.out[1], w.strides[1], -w.pads_begin[1] + w.span(1) - 1, w.in[1]);
  p.columns.begin = std::min(first.begin, w.out[1]);
  p.columns.end = std::max(p.columns.begin, std::min(first.end, last.end));
  const int64_t edges = w.out[1] - (p.columns.end - p.columns.begin);
  p.looped = w.kernel[1] > kMaxTaps || edges > kMaxEdgeColumns;
  p.misses = misses(w);
  return p;
}

class RowEmitter {
 public:
  RowEmitter(Emitter& e, const Pool& p, Expr n, Expr block, Expr row, int32_t lanes)
      : e_(e), b_(e.b), p_(p), n_(std::move(n)), block_(std::move(block)), row_(std::move(row)), lanes_(lanes) {
    const Node& node = e.task().node();
    const Operand& x = e.task().operand(node.inputs[0]);
    x_ = e.input(node.inputs[0]);
    strides_ = x.phys.strides;
    const Window& w = p.win;
    const Expr top = b_.let("top", row_ * Expr(w.strides[0]) - Expr(w.pads_begin[0]));
    const int64_t step = w.dilations[0];
    first_ = b_.let("r0", next_tap(max(Expr(0), Expr(0) - top), step));
    last_ = b_.let("r1", min(Expr(w.span(0)), Expr(w.in[0]) - top));
    origin_ = b_.let(
        "x0", Expr(x.phys.offset) + n_ * Expr(strides_[0]) + block_ * Expr(strides_[1]) + top * Expr(strides_[2]));
    if (p.maximum) return;
    const Expr covered = p.count_padding ? min(Expr(w.span(0)), Expr(w.in[0] + w.pads_end[0]) - top) : last_ - first_;
    rows_ = b_.let("rows", cast(DType::f32, taps_in(covered, step)));
  }

  /// Pools `count` columns starting at `column`, each over taps [t0, t1) of its window. An average divides by `covered`
  /// taps per row.
  void columns(const Expr& column, int64_t count, int64_t t0, int64_t t1, int64_t covered) {
    const auto taps = [&](const Tap& tap) {
      for (int64_t t = t0; t < t1; ++t) tap([&](int64_t c) { return Expr(at(c) + t * at_tap()); });
    };
    pool(column, count, taps, imm(DType::f32, static_cast<double>(covered)));
  }
  /// Pools `count` columns over all taps, in a loop.
  void long_columns(const Expr& column, int64_t count) {
    pool(column, count, looped(Expr(0), Expr(p_.win.span(1))), imm(DType::f32, static_cast<double>(p_.win.kernel[1])));
  }
  /// Pools a column at any position, over the taps that lie inside.
  void any_column(const Expr& column) {
    const Window& w = p_.win;
    const int64_t step = w.dilations[1];
    const Expr left = b_.let("left", column * Expr(w.strides[1]) - Expr(w.pads_begin[1]));
    const Expr t0 = b_.let("t0", next_tap(max(Expr(0), Expr(0) - left), step));
    const Expr t1 = b_.let("t1", min(Expr(w.span(1)), Expr(w.in[1]) - left));
    const Expr covered = p_.count_padding ? min(Expr(w.span(1)), Expr(w.in[1] + w.pads_end[1]) - left) : t1 - t0;
    const Expr counted = b_.let("covered", cast(DType::f32, taps_in(covered, step)));
    pool(column, 1, looped(t0, t1), counted);
  }

  void edge(int64_t column) {
    const Window& w = p_.win;
    const int64_t left = column * w.strides[1] - w.pads_begin[1], step = w.dilations[1];
    const auto before = [&](int64_t limit) { return ceil_div(std::max<int64_t>(0, limit - left), step); };
    const int64_t t0 = before(0), t1 = std::min(w.kernel[1], before(w.in[1]));
    const int64_t covered = p_.count_padding ? std::min(w.kernel[1], before(w.in[1] + w.pads_end[1])) : t1 - t0;
    columns(Expr(column), 1, t0, t1, std::max<int64_t>(0, covered));
  }

 private:
  /// Zeroes lanes without a channel, where a window without taps would leave -infinity or 0 / 0.
  Expr in_channels(const Expr& value) const {
    const int64_t channels = e_.task().graph->type(e_.task().node().inputs[0]).shape[1];
    if (channels % lanes_ == 0) return value;
    const Expr valid = first_lanes(Expr(channels) - block_ * Expr(lanes_), lanes_);
    return select(valid, value, imm(DType::f32, 0, lanes_));
  }

  using Tap = std::function<void(const std::function<Expr(int64_t)>& offset)>;  ///< offset(column) counts from x2
  using Taps = std::function<void(const Tap&)>;

  /// The first tap, in pixels, at `distance` (0 or more) or beyond.
  static Expr next_tap(const Expr& distance, int64_t step) {
    return step == 1 ? distance : (distance + Expr(step - 1)) / Expr(step) * Expr(step);
  }
  /// Number of taps in `pixels` pixels from a tap on; `pixels` may be negative.
  static Expr taps_in(const Expr& pixels, int64_t step) { return (max(Expr(0), pixels) + Expr(step - 1)) / Expr(step); }
  int64_t at(int64_t column) const { return column * p_.win.strides[1] * strides_[3]; }
  int64_t at_tap() const { return p_.win.dilations[1] * strides_[3]; }
  /// The taps in pixels [t0, t1) of a row of the window.
  Taps looped(const Expr& t0, const Expr& t1) {
    return [this, t0, t1](const Tap& tap) {
      b_.loop("k", t0, t1, p_.win.dilations[1],
              [&](const Expr& t) { tap([&](int64_t c) { return t * Expr(strides_[3]) + Expr(at(c)); }); });
    };
  }

  /// Pools `count` columns from `column` on over these taps; `covered` is the number per row by which an average
  /// divides.
  void pool(const Expr& column, int64_t count, const Taps& taps, const Expr& covered) {
    const Window& w = p_.win;
    const float start = p_.maximum ? -std::numeric_limits<float>::infinity() : 0;
    std::vector<int32_t> acc;
    for (int64_t c = 0; c < count; ++c) acc.push_back(b_.reg("acc", imm(DType::f32, start, lanes_)));
    const Expr x1 = b_.let("x1", origin_ + (column * Expr(w.strides[1]) - Expr(w.pads_begin[1])) * Expr(strides_[3]));
    b_.loop("r", first_, last_, w.dilations[0], [&](const Expr& r) {
      const Expr x2 = b_.let("x2", x1 + r * Expr(strides_[2]));
      taps([&](const std::function<Expr(int64_t)>& offset) {
        for (int64_t c = 0; c < count; ++c) {
          const Expr value = b_.load(x_, x2 + offset(c), lanes_);
          const int32_t reg = acc[static_cast<size_t>(c)];
          // max(a, b) returns b if a is NaN, so a NaN in the input is skipped regardless of the previous values
          b_.set(reg, p_.maximum ? max(value, b_.get(reg)) : b_.get(reg) + value);
        }
      });
    });
    const ValueId anchor = e_.task().node().outputs[0];
    const Domain domain = domain_of(e_.task().graph->type(anchor));
    for (int64_t c = 0; c < count; ++c) {
      Expr value = b_.get(acc[static_cast<size_t>(c)]);
      if (!p_.maximum) value = value / broadcast(rows_ * covered, lanes_);
      if (p_.misses) value = in_channels(value);
      Site site{{n_, block_, row_, column + Expr(c), Expr(0)}, 4, lanes_, {}};
      e_.epilogue({{anchor, value}}, domain, site);
    }
  }

  Emitter& e_;
  LoopBuilder& b_;
  const Pool& p_;
  Expr n_, block_, row_;
  int32_t lanes_;
  Buf x_;
  Shape strides_;
  Expr first_, last_, origin_, rows_;
};

class PoolRows final : public LoopModel {
 public:
  PoolRows(const Task& task, const CpuLimits& limits, Pool pool) : LoopModel(task, limits), p_(std::move(pool)) {}
  std::vector<Knob> space() const override { return {{"tile", {1, 2, 4, 8}}}; }

 private:
  Schedule usual() const override { return {"pool_rows", {{"tile", 4}}}; }
  Lowered emit(const Schedule& schedule) const override {
    const int64_t tile = schedule.knob("tile");
    const int32_t lanes = lanes_of(limits());
    const Shape& x = task().operand(task().node().inputs[0]).type.shape;
    Emitter e(task(), "pool_rows");
    const Expr n = e.b.parallel("n", x[0]);
    const Expr block = e.b.parallel("cb", ceil_div(x[1], lanes));
    const Expr row = e.b.parallel("h", p_.win.out[0]);
    RowEmitter rows(e, p_, n, block, row, lanes);
    const auto [begin, end] = p_.columns;
    const int64_t k = p_.win.kernel[1], full = (end - begin) / tile;
    if (p_.looped) {
      const auto any = [&](const Expr& column) { rows.any_column(column); };
      e.b.loop("first", 0, begin, any);
      e.b.loop("t", 0, full, [&](const Expr& t) { rows.long_columns(Expr(begin) + t * Expr(tile), tile); });
      e.b.loop("last", begin + full * tile, p_.win.out[1], any);
    } else {
      for (int64_t c = 0; c < begin; ++c) rows.edge(c);
      e.b.loop("t", 0, full, [&](const Expr& t) { rows.columns(Expr(begin) + t * Expr(tile), tile, 0, k, k); });
      for (int64_t c = begin + full * tile; c < end; ++c) rows.columns(Expr(c), 1, 0, k, k);
      for (int64_t c = end; c < p_.win.out[1]; ++c) rows.edge(c);
    }
    return e.finish();
  }

  const Pool p_;
};

}  // namespace

const Template pool_rows{"pool_rows", "max and average pooling of blocked images", analyse_as<PoolRows, analyse>};

}  // namespace kilter
