// Max and average pooling of blocked images: vectors over channels, taps outside the image left out. Columns whose
// windows lie inside run in a loop; the few at the edges are written out.

#include <algorithm>
#include <limits>

#include "ops/window.h"
#include "schedule/emit.h"
#include "schedule/templates.h"

namespace kilter {
namespace {

constexpr int64_t kMaxTaps = 16;  ///< per row of the window
constexpr int64_t kMaxEdgeColumns = 16;

struct Pool {
  Window win;
  bool maximum = false, count_padding = false;
  Range columns;  ///< output columns whose windows lie inside
};

Answer<Pool> analyse(const Task& task, const TargetLimits& limits) {
  const Node& node = task.node();
  const bool maximum = node.op->name == "MaxPool";
  if (!maximum && node.op->name != "AveragePool")
    return Rejected{"operator", "MaxPool, AveragePool", std::string(node.op->name)};
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
  Pool p{pool_window(node, x.type.shape), maximum, node.int_attr("count_include_pad", 0) != 0, {}};
  if (p.win.kernel[1] > kMaxTaps)
    return Rejected{"taps in a row of the window", std::to_string(kMaxTaps), std::to_string(p.win.kernel[1])};
  if (p.win.dilations != std::vector<int64_t>{1, 1})
    return Rejected{"dilation", "1,1", fmt::format("{},{}", p.win.dilations[0], p.win.dilations[1])};
  const Window& w = p.win;
  const Range first = inside(w.out[1], w.strides[1], -w.pads_begin[1], w.in[1]);
  const Range last = inside(w.out[1], w.strides[1], -w.pads_begin[1] + w.kernel[1] - 1, w.in[1]);
  p.columns.begin = std::min(first.begin, w.out[1]);
  p.columns.end = std::max(p.columns.begin, std::min(first.end, last.end));
  const int64_t edges = w.out[1] - (p.columns.end - p.columns.begin);
  if (edges > kMaxEdgeColumns)
    return Rejected{"columns at the edges", std::to_string(kMaxEdgeColumns), std::to_string(edges)};
  return p;
}

Answer<std::vector<Knob>> space(const Task& task, const TargetLimits& limits) {
  auto p = analyse(task, limits);
  if (auto* rejected = std::get_if<Rejected>(&p)) return *rejected;
  return std::vector<Knob>{{"tile", {1, 2, 4, 8}}};
}

Answer<Schedule> pick(const Task& task, const TargetLimits& limits) {
  auto p = analyse(task, limits);
  if (auto* rejected = std::get_if<Rejected>(&p)) return *rejected;
  return Schedule{"pool_rows", {{"tile", 4}}};
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
    first_ = b_.let("r0", max(Expr(0), Expr(0) - top));
    last_ = b_.let("r1", min(Expr(w.kernel[0]), Expr(w.in[0]) - top));
    origin_ = b_.let(
        "x0", Expr(x.phys.offset) + n_ * Expr(strides_[0]) + block_ * Expr(strides_[1]) + top * Expr(strides_[2]));
    if (p.maximum) return;
    const Expr rows = p.count_padding ? min(Expr(w.kernel[0]), Expr(w.in[0] + w.pads_end[0]) - top) : last_ - first_;
    rows_ = b_.let("rows", cast(DType::f32, rows));
  }

  /// `count` columns from `column` on, which read taps [t0, t1) of their windows; `covered` taps count in a row.
  void columns(const Expr& column, int64_t count, int64_t t0, int64_t t1, int64_t covered) {
    const Window& w = p_.win;
    const float start = p_.maximum ? -std::numeric_limits<float>::infinity() : 0;
    std::vector<int32_t> acc;
    for (int64_t c = 0; c < count; ++c) acc.push_back(b_.reg("acc", imm(DType::f32, start, lanes_)));
    const Expr x1 = b_.let("x1", origin_ + (column * Expr(w.strides[1]) - Expr(w.pads_begin[1])) * Expr(strides_[3]));
    b_.loop("r", first_, last_, [&](const Expr& r) {
      const Expr x2 = b_.let("x2", x1 + r * Expr(strides_[2]));
      for (int64_t t = t0; t < t1; ++t) {
        for (int64_t c = 0; c < count; ++c) {
          const Expr value = b_.load(x_, x2 + Expr((c * w.strides[1] + t) * strides_[3]), lanes_);
          const int32_t reg = acc[static_cast<size_t>(c)];
          b_.set(reg, p_.maximum ? max(b_.get(reg), value) : b_.get(reg) + value);
        }
      }
    });
    const ValueId anchor = e_.task().node().outputs[0];
    const Domain domain = domain_of(e_.task().graph->type(anchor));
    for (int64_t c = 0; c < count; ++c) {
      Expr value = b_.get(acc[static_cast<size_t>(c)]);
      if (!p_.maximum) value = value / broadcast(rows_ * imm(DType::f32, static_cast<double>(covered)), lanes_);
      Site site{{n_, block_, row_, column + Expr(c), Expr(0)}, 4, lanes_, {}};
      e_.epilogue({{anchor, value}}, domain, site);
    }
  }

  void edge(int64_t column) {
    const Window& w = p_.win;
    const int64_t left = column * w.strides[1] - w.pads_begin[1];
    const int64_t t0 = std::max<int64_t>(0, -left), t1 = std::min(w.kernel[1], w.in[1] - left);
    const int64_t covered = p_.count_padding ? std::min(w.kernel[1], w.in[1] + w.pads_end[1] - left) : t1 - t0;
    columns(Expr(column), 1, t0, t1, covered);
  }

 private:
  Emitter& e_;
  LoopBuilder& b_;
  const Pool& p_;
  Expr n_, block_, row_;
  int32_t lanes_;
  Buf x_;
  Shape strides_;
  Expr first_, last_, origin_, rows_;
};

Answer<Lowered> lower(const Task& task, const Schedule& schedule, const TargetLimits& limits) {
  auto analysed = analyse(task, limits);
  if (auto* rejected = std::get_if<Rejected>(&analysed)) return *rejected;
  const Pool& p = std::get<Pool>(analysed);
  if (auto rejected = check_knobs(schedule, {{"tile", {1, 2, 4, 8}}})) return *rejected;
  const int64_t tile = schedule.knob("tile");
  const int32_t lanes = lanes_of(limits);
  const Shape& x = task.operand(task.node().inputs[0]).type.shape;
  Emitter e(task, "pool_rows");
  const Expr n = e.b.parallel("n", x[0]);
  const Expr block = e.b.parallel("cb", (x[1] + lanes - 1) / lanes);
  const Expr row = e.b.parallel("h", p.win.out[0]);
  RowEmitter rows(e, p, n, block, row, lanes);
  for (int64_t c = 0; c < p.columns.begin; ++c) rows.edge(c);
  const int64_t k = p.win.kernel[1];
  const int64_t full = (p.columns.end - p.columns.begin) / tile;
  e.b.loop("t", 0, full, [&](const Expr& t) { rows.columns(Expr(p.columns.begin) + t * Expr(tile), tile, 0, k, k); });
  for (int64_t c = p.columns.begin + full * tile; c < p.columns.end; ++c) rows.columns(Expr(c), 1, 0, k, k);
  for (int64_t c = p.columns.end; c < p.win.out[1]; ++c) rows.edge(c);
  Lowered lowered;
  lowered.stages.push_back(e.finish(lowered));
  return lowered;
}

}  // namespace

const Template pool_rows{"pool_rows", "max and average pooling of blocked images", space, pick, lower};

}  // namespace kilter
