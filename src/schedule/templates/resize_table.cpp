// Resize, Upsample and TakePixels of images over height and width, with tables of source indices and weights computed
// at compile time. Enlarged rows of plain images are shuffled from vectors of the input.

#include <algorithm>

#include "ops/support/builder.h"
#include "ops/support/resize_coords.h"
#include "ops/support/take_pixels.h"
#include "schedule/emit.h"
#include "schedule/model/loop_model.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

constexpr int64_t kMaxTaps = 4;  ///< per axis: nearest 1, linear 2, cubic 4

Result<ResizePlan> analyse(const Task& task, const CpuLimits& limits) {
  const Node& node = task.node();
  if (node.op->family != Family::resize) return not_for("operator family", "resize", node.op->name);
  const Operand& x = task.operand(node.inputs[0]);
  const TensorType& y = task.graph->type(node.outputs[0]);
  if (x.type.dtype != DType::f32) return Rejected{"element type", "f32", std::string(name(x.type.dtype))};
  if (x.type.shape.size() != 4) return Rejected{"rank of the input", "4", std::to_string(x.type.shape.size())};
  if (elems(y.shape) == 0) return Rejected{"elements of the output", "1 or more", "0"};
  if (x.type.layout.block != y.layout.block || (x.type.layout.block != 1 && x.type.layout.block != lanes_of(limits))) {
    return Rejected{"layouts", "alike", "blocked and plain"};
  }
  if (!task.prologue.empty()) return Rejected{"prologue", "none", std::to_string(task.prologue.size()) + " nodes"};
  if (auto rejected = check_elementwise(task)) return *rejected;
  const OpView v = view(*task.graph, node);
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i] != kNone && v.values[i] == nullptr)
      return Rejected{"scales and sizes", "constant", "computed at run time"};
  }
  ResizePlan plan = node.op->resize(v);
  if (!plan.axes[0].identity() || !plan.axes[1].identity())
    return Rejected{"resized axes", "height and width", "batch or channels"};
  for (const ResizeAxis& a : plan.axes) {
    if (a.taps > kMaxTaps) return Rejected{"taps per axis", std::to_string(kMaxTaps), std::to_string(a.taps)};
    if (!a.outside.empty()) return Rejected{"extrapolated pixels", "none", "some"};
  }
  return plan;
}

struct Table {
  Buf index, weight;
  int64_t taps;
};

class ResizeEmitter {
 public:
  ResizeEmitter(const Task& task, const ResizePlan& plan, int32_t lanes)
      : e_(task, "resize_table"),
        b_(e_.b),
        plan_(plan),
        columns_(plan.axes[3]),
        x_(task.operand(task.node().inputs[0])),
        y_(task.node().outputs[0]),
        domain_(domain_of(task.graph->type(y_))),
        lanes_(lanes) {}

  Lowered emit() {
    n_ = b_.parallel("n", domain_.dims[0]);
    c_ = b_.parallel("c", domain_.dims[1]);
    h_ = b_.parallel("h", domain_.dims[2]);
    from_ = e_.input(x_.value);
    find_rows();
    const std::vector<int64_t> windows = domain_.block > 1 ? std::vector<int64_t>{} : find_windows();
    if (!windows.empty()) {
      vectors(windows);
    } else {
      pixels();
    }
    return e_.finish();
  }

 private:
  static constexpr int64_t kMostVectors = 128;  ///< limit on unrolled vectors

  Table table(const ResizeAxis& axis, int64_t stride, const std::string& name) {
    Tensor index(DType::i64, {axis.out * axis.taps}), weight(DType::f32, {axis.out * axis.taps});
    for (int64_t i = 0; i < axis.out * axis.taps; ++i) {
      index.data<int64_t>()[i] = axis.index[static_cast<size_t>(i)] * stride;
      weight.data<float>()[i] = static_cast<float>(axis.weight[static_cast<size_t>(i)]);
    }
    return {e_.constant(index, name + "_index"), e_.constant(weight, name + "_weight"), axis.taps};
  }

  /// Finds the input rows that the output row reads.
  void find_rows() {
    const Table rows = table(plan_.axes[2], x_.phys.strides[2], "h");
    const Expr base =
        b_.let("base", Expr(x_.phys.offset) + n_ * Expr(x_.phys.strides[0]) + c_ * Expr(x_.phys.strides[1]));
    for (int64_t t = 0; t < rows.taps; ++t) {
      row_at_.push_back(b_.let("row", base + b_.load(rows.index, h_ * Expr(rows.taps) + Expr(t))));
      row_weight_.push_back(b_.let("rw", b_.load(rows.weight, h_ * Expr(rows.taps) + Expr(t))));
    }
  }
  /// Interpolates between those rows at a column, for `lanes` neighbours.
  Expr between_rows(const Expr& column, int32_t lanes, const Expr& mask = {}) {
    Expr part;
    for (size_t r = 0; r < row_at_.size(); ++r) {
      Expr value = b_.load(from_, row_at_[r] + column, lanes, 1, mask);
      if (!plan_.nearest) value = value * row_weight_[r];
      part = part.defined() ? part + value : value;
    }
    return part;
  }

  void pixels() {
    const Table columns = table(columns_, x_.phys.strides[3], "w");
    const auto pixel = [&](const Expr& w, int32_t lanes) {
      Expr sum;
      for (int64_t s = 0; s < columns.taps; ++s) {
        const Expr column = b_.let("column", b_.load(columns.index, w * Expr(columns.taps) + Expr(s)));
        Expr part = between_rows(column, lanes);
        if (!plan_.nearest) part = part * b_.load(columns.weight, w * Expr(columns.taps) + Expr(s));
        sum = sum.defined() ? sum + part : part;
      }
      Site site{{n_, c_, h_, w}, -1, lanes, {}};
      if (domain_.block > 1) site.index.emplace_back(0), site.vec_dim = 4;
      e_.epilogue({{y_, sum}}, domain_, site);
    };
    if (domain_.block > 1) {
      b_.loop("w", 0, domain_.dims[3], [&](const Expr& w) { pixel(w, domain_.block); });
    } else if (domain_.dims[3] == 1) {
      pixel(0, 1);
    } else {
      b_.vector_loop("w", domain_.dims[3], [&](const Expr& w) { pixel(w, 1); });
    }
  }

  int64_t source(int64_t column, int64_t tap) const {
    return columns_.index[static_cast<size_t>(std::min(column, columns_.out - 1) * columns_.taps + tap)];
  }

  /// For each vector of outputs, the first column of the one vector of the plain input that covers all elements those
  /// outputs read; empty if some vector of outputs reads a wider range.
  std::vector<int64_t> find_windows() const {
    if (x_.phys.strides[3] != 1 || lanes_ == 1 || 2 * columns_.out < lanes_) return {};
    std::vector<int64_t> first;
    for (int64_t at = 0; at < columns_.out; at += lanes_) {
      int64_t low = columns_.in, high = 0;
      for (int64_t k = at; k < at + lanes_; ++k) {
        for (int64_t s = 0; s < columns_.taps; ++s)
          low = std::min(low, source(k, s)), high = std::max(high, source(k, s));
      }
      if (high - low >= lanes_) return {};
      first.push_back(std::max<int64_t>(0, std::min(low, columns_.in - lanes_)));
    }
    return first.size() > kMostVectors ? std::vector<int64_t>{} : first;
  }

  /// Shuffles each vector of outputs from one vector of inputs.
  void vectors(const std::vector<int64_t>& windows) {
    Tensor by_tap(DType::f32, {columns_.taps * columns_.out});
    for (int64_t i = 0; i < columns_.out; ++i) {
      for (int64_t s = 0; s < columns_.taps; ++s)
        by_tap.data<float>()[s * columns_.out + i] =
            static_cast<float>(columns_.weight[static_cast<size_t>(i * columns_.taps + s)]);
    }
    const Buf weights = plan_.nearest ? Buf{} : e_.constant(by_tap, "w_weight");
    const Expr inside = columns_.in < lanes_ ? first_lanes(Expr(columns_.in), lanes_) : Expr();
    for (size_t v = 0; v < windows.size(); ++v) {
      const int64_t at = static_cast<int64_t>(v) * lanes_;
      const Expr mask = at + lanes_ > columns_.out ? first_lanes(Expr(columns_.out - at), lanes_) : Expr();
      const Expr read = b_.let("x", between_rows(Expr(windows[v]), lanes_, inside));
      Expr sum;
      for (int64_t s = 0; s < columns_.taps; ++s) {
        std::vector<int32_t> picks;
        for (int64_t k = at; k < at + lanes_; ++k) picks.push_back(static_cast<int32_t>(source(k, s) - windows[v]));
        Expr part = shuffle(read, read, std::move(picks));
        if (!plan_.nearest) part = part * b_.load(weights, Expr(s * columns_.out + at), lanes_, 1, mask);
        sum = sum.defined() ? sum + part : part;
      }
      e_.epilogue({{y_, sum}}, domain_, {{n_, c_, h_, Expr(at)}, 3, lanes_, mask});
    }
  }

  Emitter e_;
  LoopBuilder& b_;
  const ResizePlan& plan_;
  const ResizeAxis& columns_;
  const Operand& x_;
  ValueId y_;
  Domain domain_;
  int32_t lanes_;
  Expr n_, c_, h_;
  Buf from_;
  std::vector<Expr> row_at_, row_weight_;
};

class ResizeTable final : public LoopModel {
 public:
  ResizeTable(const Task& task, const CpuLimits& limits, ResizePlan plan)
      : LoopModel(task, limits), plan_(std::move(plan)) {}

 private:
  Schedule usual() const override { return {"resize_table", {}}; }
  Lowered emit(const Schedule&) const override { return ResizeEmitter(task(), plan_, lanes_of(limits())).emit(); }

  const ResizePlan plan_;
};

}  // namespace

const Template resize_table{"resize_table", "image resizing by index and weight tables",
                            analyse_as<ResizeTable, analyse>};

}  // namespace kilter
