// ArgMax and ArgMin. If the innermost dimension is kept, vectors run along it, and the kernel steps along the axis. If
// the innermost dimension is the axis, vectors run along the axis and their lanes are compared at the end. A NaN beats
// every number. Of equal elements, the first or the last is returned, as the node specifies.

#include <algorithm>
#include <limits>

#include "ops/support/builder.h"
#include "schedule/emit.h"
#include "schedule/model/loop_model.h"
#include "schedule/templates/rows.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

constexpr int64_t kVectors = 4;  ///< enough to hide the latency of comparisons

struct Search {
  bool greatest = true, last = false;
  size_t axis = 0, inner = 0;  ///< the dimension that is searched, and the one along which vectors run
};

Result<Search> analyse(const Task& task, const CpuLimits&) {
  const Node& node = task.node();
  if (node.op->family != Family::arg) return not_for("operator family", "arg", node.op->name);
  const Operand& x = task.operand(node.inputs[0]);
  if (x.type.dtype != DType::f32) return Rejected{"element type", "f32", std::string(name(x.type.dtype))};
  if (node.int_attr("keepdims", 1) == 0) return Rejected{"keepdims", "1", "0"};
  if (elems(x.type.shape) == 0 || x.type.shape.empty()) return Rejected{"elements", "1 or more", "0"};
  if (x.type.layout.block > 1) return Rejected{"layout", "plain", text(x.type)};
  if (!task.prologue.empty()) return Rejected{"prologue", "none", std::to_string(task.prologue.size()) + " nodes"};
  if (auto rejected = check_elementwise(task)) return *rejected;
  Search s{node.op->combiner == Combiner::max, node.int_attr("select_last_index", 0) != 0};
  s.axis = static_cast<size_t>(normal_axis(node, node.int_attr("axis", 0), std::ssize(x.type.shape)));
  s.inner = innermost(x.type.shape, 0);
  if (x.type.shape[s.inner] == 1) s.inner = s.axis;
  return s;
}

class ArgEmitter {
 public:
  ArgEmitter(Emitter& e, const Search& s, int32_t lanes)
      : e_(e), b_(e.b), s_(s), x_(e.task().operand(e.task().node().inputs[0])), lanes_(lanes) {
    index_.assign(x_.phys.dims.size(), Expr(0));
  }

  void run() {
    for (size_t d = 0; d < index_.size(); ++d) {
      if (d != s_.axis && d != s_.inner) index_[d] = b_.parallel("i" + std::to_string(d), x_.phys.dims[d]);
    }
    if (s_.inner == s_.axis) {
      buffer_ = e_.input(x_.value);
      return along_axis();
    }
    parallel_parts(b_, "chunk", x_.phys.dims[s_.inner], kVectors * lanes_,
                   [&](const Expr& first, int64_t count) { columns(first, count); });
  }

 private:
  int64_t extent() const { return x_.phys.dims[s_.axis]; }
  Expr worst() const {
    const double inf = std::numeric_limits<double>::infinity();
    return imm(DType::f32, s_.greatest ? -inf : inf, lanes_);
  }
  Expr number(int64_t i) const { return imm_int(DType::i32, i, lanes_); }
  Expr load(const Expr& mask) const {
    Expr at = x_.phys.offset;
    for (size_t d = 0; d < index_.size(); ++d) at = at + index_[d] * Expr(x_.phys.strides[d]);
    return b_.load(buffer_, at, lanes_, x_.phys.strides[s_.inner], mask);
  }

  /// Registers with the best values so far of a vector of searches, and their indices.
  struct Best {
    int32_t value = 0, index = 0;
  };

  /// Replaces the best by `x` at `index` (i32) where `x` is better and `mask` is on.
  void consider(const Best& best, const Expr& x, const Expr& index, const Expr& mask) {
    const Expr now = b_.get(best.value), nan = unary(Op::is_nan, x);
    const Op op = s_.greatest ? (s_.last ? Op::ge : Op::gt) : (s_.last ? Op::le : Op::lt);
    const Expr first_nan = s_.last ? nan : binary(Op::logical_and, nan, unary(Op::logical_not, unary(Op::is_nan, now)));
    Expr better = binary(Op::logical_or, binary(op, x, now), first_nan);
    if (mask.defined()) better = binary(Op::logical_and, better, mask);
    better = b_.let("better", better);
    b_.set(best.index, select(better, index, b_.get(best.index)));
    b_.set(best.value, select(better, x, now));
  }

  void columns(const Expr& first, int64_t count) {
    if (buffer_.id < 0) buffer_ = e_.input(x_.value);
    std::vector<Best> best;
    std::vector<Expr> at, masks;
    for (int64_t c = 0; c < count; c += lanes_) {
      at.push_back(first + Expr(c));
      masks.push_back(count - c >= lanes_ ? Expr() : first_lanes(Expr(count - c), lanes_));
      index_[s_.axis] = Expr(0), index_[s_.inner] = at.back();
      best.push_back({b_.reg("best", load(masks.back())), b_.reg("index", number(0))});
    }
    b_.loop("k", 1, extent(), [&](const Expr& k) {
      const Expr index = broadcast(b_.let("at", cast(DType::i32, k)), lanes_);
      for (size_t i = 0; i < best.size(); ++i) {
        index_[s_.axis] = k, index_[s_.inner] = at[i];
        consider(best[i], b_.let("x", load(masks[i])), index, {});
      }
    });
    for (size_t i = 0; i < best.size(); ++i) {
      index_[s_.inner] = at[i];
      store(b_.get(best[i].index), lanes_, masks[i]);
    }
  }

  void along_axis() {
    std::vector<Best> best;
    const Expr lane = cast(DType::i32, ramp(Expr(0), Expr(1), lanes_));
    const Expr ramp0 = b_.let("lane", lane), end = number(extent() - 1);
    const int64_t unroll = std::clamp<int64_t>(extent() / lanes_, 1, kVectors);
    // Lanes beyond the end start with the worst value and the last index, so they never beat the last element.
    for (int64_t i = 0; i < unroll; ++i)
      best.push_back({b_.reg("best", worst()), b_.reg("index", min(ramp0 + number(i * lanes_), end))});
    for_vectors(b_, extent(), lanes_, unroll, [&](const Expr& v, const Expr& mask, int64_t which) {
      index_[s_.axis] = v;
      const Expr index = ramp0 + broadcast(b_.let("at", cast(DType::i32, v)), lanes_);
      consider(best[static_cast<size_t>(which)], b_.let("x", load(mask)), index, mask);
    });
    store(over_lanes(best), 1, {});
  }

  /// The first index (or the last) among the lanes that contain the overall best value.
  Expr over_lanes(const std::vector<Best>& best) {
    const Op better = s_.greatest ? Op::max : Op::min, sooner = s_.last ? Op::max : Op::min;
    const Expr one = imm(DType::f32, 1, lanes_), none = imm(DType::f32, 0, lanes_);
    Expr nans = none, top = worst();
    for (const Best& b : best) {
      const Expr value = b_.get(b.value), nan = unary(Op::is_nan, value);
      nans = b_.let("nans", max(nans, select(nan, one, none)));
      top = b_.let("top", binary(better, top, select(nan, worst(), value)));
    }
    const Expr any = b_.let("any", broadcast(b_.let("nan", lane_reduce(Op::max, nans)), lanes_));
    const Expr all = b_.let("all", broadcast(b_.let("most", lane_reduce(better, top)), lanes_));
    const Expr never = number(s_.last ? -1 : std::numeric_limits<int32_t>::max());
    Expr index = never;
    for (const Best& b : best) {
      const Expr value = b_.get(b.value);
      const Expr wins = select(binary(Op::gt, any, none), unary(Op::is_nan, value), binary(Op::eq, value, all));
      index = b_.let("winner", binary(sooner, index, select(wins, b_.get(b.index), never)));
    }
    return b_.let("index", lane_reduce(sooner, index));
  }

  void store(const Expr& index, int32_t lanes, const Expr& mask) {
    const ValueId anchor = e_.task().node().outputs[0];
    Site site{index_, lanes > 1 ? static_cast<int32_t>(s_.inner) : -1, lanes, mask};
    site.index[s_.axis] = Expr(0);
    e_.epilogue({{anchor, cast(DType::i64, index)}}, domain_of(e_.task().graph->type(anchor)), site);
  }

  Emitter& e_;
  LoopBuilder& b_;
  const Search& s_;
  const Operand& x_;
  int32_t lanes_;
  Buf buffer_;
  std::vector<Expr> index_;
};

class ArgRows final : public LoopModel {
 public:
  ArgRows(const Task& task, const CpuLimits& limits, Search search) : LoopModel(task, limits), s_(std::move(search)) {}

 private:
  Schedule usual() const override { return {"arg_rows", {}}; }
  Lowered emit(const Schedule&) const override {
    Emitter e(task(), "arg_rows");
    ArgEmitter(e, s_, lanes_of(limits())).run();
    return e.finish();
  }

  const Search s_;
};

}  // namespace

const Template arg_rows{"arg_rows", "indices of extrema along an axis", analyse_as<ArgRows, analyse>};

}  // namespace kilter
