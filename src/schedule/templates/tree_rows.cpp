// Forests of decision trees. Walks through trees are chains of dependent loads, so several are interleaved: those of
// several rows through one tree, and for the remaining rows, those of one row through several trees. In both cases, a
// row adds up its leaves in the order of the trees.

#include <algorithm>
#include <limits>

#include "ops/support/tree_sums.h"
#include "schedule/emit.h"
#include "schedule/model/loop_model.h"
#include "schedule/templates/place.h"
#include "schedule/templates/rows.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

constexpr int64_t kMostRows = 64;        ///< of a block
constexpr int64_t kMostBytes = 1 << 24;  ///< of a row

Result<TreeSumsShape> analyse(const Task& task, const CpuLimits&) {
  const Node& node = task.node();
  if (node.op->family != Family::trees) return not_for("operator family", "trees", node.op->name);
  if (!task.prologue.empty() || !task.epilogue.empty()) return Rejected{"fused nodes", "none", "some"};
  for (const auto* list : {&task.inputs, &task.outputs}) {
    for (const Operand& o : *list) {
      if (auto rejected = check_dense(o)) return *rejected;
      if (elems(o.type.shape) == 0) return Rejected{"elements", "1 or more", "0"};
    }
  }
  const auto shape = [&](size_t i) { return task.operand(node.inputs[i]).type.shape; };
  for (const size_t i : {kTreeRecords, kTreeDepths, kTreeTargets}) {
    // Only constants are known to be in range.
    if (node.inputs[i] != kNone && task.operand(node.inputs[i]).constant == nullptr)
      return Rejected{"nodes of trees", "constant", "computed"};
  }
  const TreeSumsShape s = tree_sums_shape(node, shape(kTreeX), shape(kTreeDepths), shape(kTreeInitial));
  const int64_t bytes = s.columns.width() * size_bytes(task.operand(node.inputs[kTreeX]).type.dtype);
  if (bytes > kMostBytes) return Rejected{"bytes of a row", std::to_string(kMostBytes), std::to_string(bytes)};
  return s;
}

class TreeEmitter {
 public:
  TreeEmitter(Emitter& e, const TreeSumsShape& s, int64_t walks)
      : e_(e), b_(e.b), node_(e.task().node()), s_(s), walks_(walks) {}

  /// A block of rows fits in L1 together with a tree. If there are few rows, or if rows are too long for that, they are
  /// computed one by one.
  void run(const CpuLimits& limits) {
    const int64_t row_bytes = s_.columns.width() * size_bytes(e_.task().operand(node_.inputs[kTreeX]).type.dtype);
    const int64_t fit = std::min(limits.l1_bytes / 2 / row_bytes, s_.rows / kFewItems) / walks_ * walks_;
    block_ = std::clamp(fit, walks_, kMostRows / walks_ * walks_);
    if (s_.rows < walks_ || block_ * row_bytes > limits.l2_bytes / 2) block_ = 1;
    parallel_parts(b_, "block", s_.rows, block_, [&](const Expr& first, int64_t count) { rows(first, count); });
  }

 private:
  void declare(int64_t count) {
    x_ = e_.input(node_.inputs[kTreeX]), records_ = e_.input(node_.inputs[kTreeRecords]);
    depths_ = e_.input(node_.inputs[kTreeDepths]), initial_ = e_.input(node_.inputs[kTreeInitial]);
    if (single() && s_.targets > 1) targets_ = e_.input(node_.inputs[kTreeTargets]);
    if (!single()) leaves_ = e_.input(node_.inputs[kTreeRows]);
    to_ = e_.output(node_.outputs[0]);
    if (copy_.id < 0) copy_ = b_.scratch("columns", type(), count * s_.columns.width());
  }
  /// The type of features, thresholds and scores.
  DType type() const { return b_.value_type(x_); }
  DType word_type() const { return b_.value_type(records_); }
  Expr least() const { return imm(type(), -std::numeric_limits<double>::infinity()); }
  bool single() const { return node_.input(kTreeRows) == kNone; }

  /// Scores of rows [first, first + count).
  void rows(const Expr& first, int64_t count) {
    declare(count);
    b_.loop("row", 0, count, [&](const Expr& row) { prepare(first + row, row); });
    const int64_t together = block_ < walks_ ? 0 : count / walks_ * walks_;
    if (together > 0) {
      b_.loop("tree", 0, s_.trees, [&](const Expr& tree) {
        b_.loop("row", 0, together, walks_, [&](const Expr& row) { many_rows(first, tree, row); });
      });
    }
    if (together == count) return;
    b_.loop("row", together, count, [&](const Expr& row) {
      const int64_t full = s_.trees / walks_ * walks_;
      b_.loop("tree", 0, full, walks_, [&](const Expr& tree) { many_trees(first + row, row, tree, walks_); });
      if (full < s_.trees) many_trees(first + row, row, Expr(full), s_.trees - full);
    });
  }

  /// Copies row `from` of x to row `to` of the columns, and sets the scores of the row.
  void prepare(const Expr& from, const Expr& to) {
    const int64_t features = s_.columns.features, width = s_.columns.width();
    const Expr source = b_.let("source", from * Expr(features)), target = b_.let("target", to * Expr(width));
    b_.vector_loop("v", features, [&](const Expr& v) {
      const Expr x = b_.let("x", b_.load(x_, source + v));
      if (s_.columns.raw) b_.store(copy_, target + v, x);
      if (!s_.columns.cleaned) return;
      const Expr clean = select(unary(Op::is_nan, x), least(), x);
      b_.store(copy_, target + Expr(s_.columns.first_cleaned()) + v, clean);
    });
    b_.store(copy_, target + Expr(width - 1), least());
    const Expr scores = b_.let("scores", from * Expr(s_.targets));
    b_.vector_loop("k", s_.targets, [&](const Expr& k) { b_.store(to_, scores + k, b_.load(initial_, k)); });
  }

  /// Walks through `count` trees or with `count` rows at the same time. Returns the indices of the leaves' records.
  std::vector<int32_t> walk(const std::vector<Expr>& roots, const std::vector<Expr>& columns, const Expr& depth) {
    std::vector<int32_t> at;
    for (const Expr& root : roots) at.push_back(b_.reg("at", root));
    b_.loop("level", 0, depth, [&](const Expr&) {
      for (size_t k = 0; k < at.size(); ++k) step(at[k], columns[k]);
    });
    return at;
  }

  void step(int32_t at, const Expr& columns) {
    const Expr mask = imm_int(word_type(), (int64_t{1} << s_.feature_bits) - 1);
    const Expr word = b_.let("word", b_.load(records_, b_.get(at) * Expr(2) + Expr(1)));
    const Expr threshold = value(at);
    const Expr x = b_.load(copy_, columns + b_.let("column", cast(DType::i64, binary(Op::bit_and, word, mask))));
    const Expr left = cast(DType::i64, binary(Op::shr, word, imm_int(word_type(), s_.feature_bits)));
    b_.set(at, left + select(binary(Op::le, x, threshold), Expr(0), Expr(1)));
  }

  Expr depth_of(const Expr& tree) { return min(cast(DType::i64, b_.load(depths_, tree)), Expr(s_.depth)); }

  void many_rows(const Expr& first, const Expr& tree, const Expr& row) {
    const Expr root = b_.let("root", tree);
    std::vector<Expr> columns;
    for (int64_t k = 0; k < walks_; ++k) columns.push_back((row + Expr(k)) * Expr(s_.columns.width()));
    const std::vector<int32_t> at =
        walk(std::vector<Expr>(static_cast<size_t>(walks_), root), columns, b_.let("depth", depth_of(tree)));
    for (int64_t k = 0; k < walks_; ++k) combine(first + row + Expr(k), tree, at[static_cast<size_t>(k)]);
  }

  void many_trees(const Expr& to, const Expr& row, const Expr& tree, int64_t count) {
    std::vector<Expr> roots;
    Expr depth;
    for (int64_t k = 0; k < count; ++k) {
      roots.push_back(tree + Expr(k));
      const Expr own = depth_of(roots.back());
      depth = b_.let("depth", depth.defined() ? max(depth, own) : own);
    }
    const Expr columns = b_.let("columns", row * Expr(s_.columns.width()));
    const std::vector<int32_t> at = walk(roots, std::vector<Expr>(roots.size(), columns), depth);
    if (!single() || s_.targets > 1) {
      for (int64_t k = 0; k < count; ++k) combine(to, roots[static_cast<size_t>(k)], at[static_cast<size_t>(k)]);
      return;
    }
    const int32_t score = b_.reg("score", b_.load(to_, to));
    for (const int32_t leaf : at) b_.set(score, combined(b_.get(score), value(leaf)));
    b_.store(to_, to, b_.get(score));
  }

  /// The threshold of a record, or the value of a leaf.
  Expr value(int32_t at) { return bitcast(type(), b_.load(records_, b_.get(at) * Expr(2))); }

  Expr combined(const Expr& score, const Expr& value) {
    if (s_.aggregate == TreeAggregate::sum) return score + value;
    return s_.aggregate == TreeAggregate::min ? min(score, value) : max(score, value);
  }

  /// Combines the scores of row `to` with a leaf of a tree.
  void combine(const Expr& to, const Expr& tree, int32_t at) {
    if (single()) {
      const Expr target = s_.targets > 1 ? cast(DType::i64, b_.load(targets_, tree)) : Expr(0);
      const Expr place = b_.let("place", to * Expr(s_.targets) + target);
      b_.store(to_, place, combined(b_.load(to_, place), value(at)));
      return;
    }
    const int64_t last = e_.task().operand(node_.inputs[kTreeRows]).type.shape[0] - 1;
    const Expr leaf = min(cast(DType::i64, b_.load(records_, b_.get(at) * Expr(2))), Expr(last));
    const Expr from = b_.let("from", leaf * Expr(s_.targets)), place = b_.let("place", to * Expr(s_.targets));
    b_.vector_loop("k", s_.targets, [&](const Expr& k) {
      b_.store(to_, place + k, combined(b_.load(to_, place + k), b_.load(leaves_, from + k)));
    });
  }

  Emitter& e_;
  LoopBuilder& b_;
  const Node& node_;
  const TreeSumsShape& s_;
  int64_t walks_;
  int64_t block_ = 0;  ///< rows of a parallel item
  Buf x_, records_, depths_, initial_, targets_, leaves_, to_, copy_;
};

class TreeRows final : public LoopModel {
 public:
  TreeRows(const Task& task, const CpuLimits& limits, TreeSumsShape shape) : LoopModel(task, limits), s_(shape) {}
  std::vector<Knob> space() const override { return {{"walks", {4, 8, 12, 16}}}; }

 private:
  Schedule usual() const override { return {"tree_rows", {{"walks", 8}}}; }
  Lowered emit(const Schedule& schedule) const override {
    Emitter e(task(), "tree_rows");
    TreeEmitter(e, s_, schedule.knob("walks")).run(limits());
    return e.finish();
  }

  const TreeSumsShape s_;
};

}  // namespace

const Template tree_rows{"tree_rows", "forests of decision trees", analyse_as<TreeRows, analyse>};

}  // namespace kilter
