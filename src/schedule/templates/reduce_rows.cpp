// Sums, means, extrema and products over axes. If the innermost dimension is kept, vectors run along it. If it is
// reduced, they run along the reduction and end in a reduction over lanes. If it is reduced and has only a few
// elements, vectors run along the next dimension with a stride.

#include <algorithm>
#include <limits>

#include "ops/support/builder.h"
#include "ops/support/reduction.h"
#include "schedule/emit.h"
#include "schedule/model/loop_model.h"
#include "schedule/templates/rows.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

constexpr int64_t kAccumulators = 4;  ///< enough to hide the latency of additions
constexpr int64_t kFew = 4;           ///< largest stride whose strided loads are cheap

struct Reduction {
  Op op = Op::add;
  double start = 0;
  int64_t count = 1;                  ///< elements reduced into one output, for the mean
  std::vector<size_t> kept, reduced;  ///< physical input dimensions with more than one element, outermost first
  bool inner_reduced = false;
  size_t inner = 0;    ///< the dimension along which vectors run
  int64_t stride = 1;  ///< elements between neighbours along `inner` in the input
};

/// The operation of a combiner and its identity.
std::optional<std::pair<Op, double>> operation(Combiner combiner) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  switch (combiner) {
    case Combiner::sum:
    case Combiner::mean:
      return std::pair(Op::add, 0.0);
    case Combiner::product:
      return std::pair(Op::mul, 1.0);
    case Combiner::max:
      return std::pair(Op::max, -kInf);
    case Combiner::min:
      return std::pair(Op::min, kInf);
    case Combiner::none:
      break;
  }
  return std::nullopt;
}

Result<Reduction> analyse(const Task& task, const CpuLimits& limits) {
  const Node& node = task.node();
  if (node.op->family != Family::reduce) return not_for("operator family", "reduce", node.op->name);
  const auto op = operation(node.op->combiner);
  if (!op) return not_for("operator", "ReduceSum, ReduceMean, ReduceProd, ReduceMax, ReduceMin", node.op->name);
  const Operand& x = task.operand(node.inputs[0]);
  const TensorType& y = task.graph->type(node.outputs[0]);
  if (x.type.dtype != DType::f32) return Rejected{"element type", "f32", std::string(name(x.type.dtype))};
  if (node.int_attr("keepdims", 1) == 0) return Rejected{"keepdims", "1", "0"};
  if (elems(x.type.shape) == 0) return Rejected{"elements", "1 or more", "0"};
  if (x.type.layout.block != y.layout.block) return Rejected{"layouts", "alike", "blocked and plain"};
  if (!task.prologue.empty()) return Rejected{"prologue", "none", std::to_string(task.prologue.size()) + " nodes"};
  if (auto rejected = check_elementwise(task)) return *rejected;
  const std::vector<int64_t> axes = reduced_axes(view(*task.graph, node));
  Reduction r;
  r.op = op->first, r.start = op->second;
  const auto is_reduced = [&](size_t d) {
    return d < x.type.shape.size() && std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
  };
  if (x.type.layout.block > 1 && is_reduced(1)) return Rejected{"reduced axes of a blocked input", "2 and later", "1"};
  for (int64_t a : axes) r.count *= x.type.shape[static_cast<size_t>(a)];
  bool found = false;
  for (size_t d = x.phys.dims.size(); d-- > 0;) {
    if (x.phys.dims[d] == 1) continue;
    if (!found) r.inner = d, r.inner_reduced = is_reduced(d), found = true;
    auto& list = is_reduced(d) ? r.reduced : r.kept;
    list.insert(list.begin(), d);
  }
  if (r.inner_reduced && x.phys.dims[r.inner] <= kFew && !r.kept.empty() &&
      x.phys.dims[r.kept.back()] >= lanes_of(limits) && x.phys.strides[r.kept.back()] <= kFew) {
    r.inner = r.kept.back(), r.inner_reduced = false;
  }
  if (found) r.stride = x.phys.strides[r.inner];
  return r;
}

class ReduceEmitter {
 public:
  ReduceEmitter(Emitter& e, const Reduction& r, int64_t accumulators, int32_t lanes)
      : e_(e),
        b_(e.b),
        r_(r),
        x_(e.task().operand(e.task().node().inputs[0])),
        accumulators_(accumulators),
        lanes_(lanes) {
    index_.assign(x_.phys.dims.size(), Expr(0));
  }

  void run() {
    const bool along_kept = !r_.inner_reduced && !r_.kept.empty();
    for (size_t d : r_.kept) {
      if (along_kept && d == r_.inner) continue;
      index_[d] = b_.parallel("i" + std::to_string(d), x_.phys.dims[d]);
    }
    buffer_ = e_.input(x_.value);
    if (!along_kept) return reduce_along();
    parallel_parts(b_, "chunk", x_.phys.dims[r_.inner], lanes_, [&](const Expr& first, int64_t count) {
      index_[r_.inner] = first;
      keep_along(count == lanes_ ? Expr() : first_lanes(Expr(count), lanes_));
    });
  }

 private:
  Expr address(const std::vector<Expr>& index) const {
    Expr at = x_.phys.offset;
    for (size_t d = 0; d < index.size(); ++d) at = at + index[d] * Expr(x_.phys.strides[d]);
    return at;
  }

  void start() {
    acc_.clear();
    for (int64_t i = 0; i < accumulators_; ++i) acc_.push_back(b_.reg("acc", imm(DType::f32, r_.start, lanes_)));
  }
  void add(int64_t i, const Expr& value) {
    const int32_t reg = acc_[static_cast<size_t>(i)];
    b_.set(reg, merged(b_.get(reg), extremum() ? b_.let("x", value) : value));
  }
  Expr total() {
    Expr sum = b_.get(acc_[0]);
    for (int64_t i = 1; i < accumulators_; ++i) {
      const Expr next = b_.get(acc_[static_cast<size_t>(i)]);
      sum = extremum() ? b_.let("best", merged(sum, next)) : merged(sum, next);
    }
    return sum;
  }
  bool extremum() const { return r_.op == Op::max || r_.op == Op::min; }
  /// For extrema, a NaN on either side wins; the bare operation would lose a NaN on the left.
  Expr merged(const Expr& best, const Expr& x) const {
    if (!extremum()) return binary(r_.op, best, x);
    return select(unary(Op::is_nan, best), best, binary(r_.op, best, x));
  }
  Expr over_lanes(const Expr& lanes) {
    if (!extremum()) return lane_reduce(r_.op, lanes);
    const Expr all = b_.let("lanes", lanes);
    const Expr zero = imm(DType::f32, 0, all.lanes());
    const Expr nan = b_.let("nan", lane_reduce(Op::add, select(unary(Op::is_nan, all), all, zero)));
    return select(unary(Op::is_nan, nan), nan, lane_reduce(r_.op, all));
  }
  Expr finished(const Expr& value) {
    if (e_.task().node().op->combiner != Combiner::mean) return value;
    return value / imm(DType::f32, static_cast<double>(r_.count), value.lanes());
  }

  /// Loops over the reduced dimensions. `body` gets the number of its accumulator.
  void over_reduced(size_t depth, const std::function<void(int64_t)>& body, size_t count) {
    if (depth == count) return body(0);
    const size_t d = r_.reduced[depth];
    const int64_t extent = x_.phys.dims[d];
    if (depth + 1 < count) {
      return b_.loop("r", 0, extent, [&](const Expr& i) {
        index_[d] = i;
        over_reduced(depth + 1, body, count);
      });
    }
    const int64_t full = extent / accumulators_ * accumulators_;
    b_.loop("r", 0, full, accumulators_, [&](const Expr& i) {
      for (int64_t a = 0; a < accumulators_; ++a) {
        index_[d] = i + Expr(a);
        body(a);
      }
    });
    for (int64_t i = full; i < extent; ++i) {
      index_[d] = Expr(i);
      body(i - full);
    }
  }

  void keep_along(const Expr& mask) {
    const Expr& lanes_on = mask;
    start();
    over_reduced(
        0, [&](int64_t a) { add(a, b_.load(buffer_, address(index_), lanes_, r_.stride, lanes_on)); },
        r_.reduced.size());
    store(finished(total()), static_cast<int32_t>(r_.inner), lanes_, lanes_on);
  }

  void reduce_along() {
    start();
    if (r_.reduced.empty()) {
      store(finished(b_.load(buffer_, address(index_))), -1, 1, {});
      return;
    }
    const int64_t extent = x_.phys.dims[r_.inner];
    const int64_t step = lanes_ * accumulators_;
    const int64_t full = extent / step * step;
    over_reduced_outer(0, [&] {
      const Expr row = b_.let("row", address(index_));
      b_.loop("v", 0, full, step, [&](const Expr& v) {
        for (int64_t a = 0; a < accumulators_; ++a) add(a, vector_at(row, v + Expr(a * lanes_), {}));
      });
      for (int64_t at = full; at < extent; at += lanes_) {
        const int64_t left = std::min<int64_t>(lanes_, extent - at);
        if (left == lanes_) {
          add(0, vector_at(row, Expr(at), {}));
          continue;
        }
        const Expr mask = first_lanes(Expr(left), lanes_);
        add(0, select(mask, vector_at(row, Expr(at), mask), imm(DType::f32, r_.start, lanes_)));
      }
    });
    store(finished(b_.let("total", over_lanes(total()))), -1, 1, {});
  }

  /// Elements i, i + 1, ... of the innermost dimension.
  Expr vector_at(const Expr& row, const Expr& i, const Expr& mask) {
    return b_.load(buffer_, row + i * Expr(r_.stride), lanes_, r_.stride, mask);
  }

  void over_reduced_outer(size_t depth, const std::function<void()>& body) {
    if (depth + 1 >= r_.reduced.size()) return body();
    const size_t d = r_.reduced[depth];
    b_.loop("r", 0, x_.phys.dims[d], [&](const Expr& i) {
      index_[d] = i;
      over_reduced_outer(depth + 1, body);
    });
  }

  void store(const Expr& value, int32_t vec_dim, int32_t lanes, const Expr& mask) {
    const ValueId anchor = e_.task().node().outputs[0];
    const Domain domain = domain_of(e_.task().graph->type(anchor));
    Site site;
    site.index = index_;
    for (size_t d : r_.reduced) site.index[d] = Expr(0);
    site.vec_dim = vec_dim;
    site.lanes = lanes;
    site.mask = mask;
    e_.epilogue({{anchor, value}}, domain, site);
  }

  Emitter& e_;
  LoopBuilder& b_;
  const Reduction& r_;
  const Operand& x_;
  int64_t accumulators_;
  int32_t lanes_;
  Buf buffer_;
  std::vector<Expr> index_;
  std::vector<int32_t> acc_;
};

class ReduceRows final : public LoopModel {
 public:
  ReduceRows(const Task& task, const CpuLimits& limits, Reduction reduction)
      : LoopModel(task, limits), r_(std::move(reduction)) {}
  std::vector<Knob> space() const override { return {{"accumulators", {1, 2, 4, 8}}}; }

 private:
  Schedule usual() const override { return {"reduce_rows", {{"accumulators", kAccumulators}}}; }
  Lowered emit(const Schedule& schedule) const override {
    Emitter e(task(), "reduce_rows");
    ReduceEmitter(e, r_, schedule.knob("accumulators"), lanes_of(limits())).run();
    return e.finish();
  }

  const Reduction r_;
};

}  // namespace

const Template reduce_rows{"reduce_rows", "reductions over axes", analyse_as<ReduceRows, analyse>};

}  // namespace kilter
