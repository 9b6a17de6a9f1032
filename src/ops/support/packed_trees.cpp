#include "ops/support/packed_trees.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace kilter {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Returns the next f32 (f64 if `wide`) below a number of that type.
double before(double value, bool wide) {
  if (wide) return std::nextafter(value, -kInfinity);
  return static_cast<double>(std::nextafter(static_cast<float>(value), -std::numeric_limits<float>::infinity()));
}

/// Returns the largest f32 (f64 if `wide`) that is at most `value`.
double at_most(double value, bool wide) {
  if (wide) return value;
  const auto nearest = static_cast<double>(static_cast<float>(value));
  return nearest > value ? before(nearest, wide) : nearest;
}

/// A node whose condition is x <= threshold; NaN goes left if `nan_left`.
struct Step {
  int32_t leaf = -1;  ///< the node of the forest, if it is a leaf
  int64_t feature = 0;
  double threshold = 0;
  bool nan_left = false;
  int32_t left = 0, right = 0;
};

/// Expresses the nodes of a forest as steps. The first steps have the indices of the nodes.
class Steps {
 public:
  Steps(const TreeEnsemble& trees, bool wide) : trees_(trees), wide_(wide), steps_(trees.nodes.size()) {
    for (size_t i = 0; i < trees.nodes.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      if (trees.nodes[i].leaf) {
        steps_[i].leaf = id;
      } else {
        express(id, trees.nodes[i]);
      }
    }
  }

  const std::vector<Step>& steps() const { return steps_; }

 private:
  /// Values of x up to `threshold` lead to `child`.
  struct Segment {
    double threshold;
    int32_t child;
  };

  void express(int32_t id, const TreeNode& n) {
    const bool missing = n.missing_true;
    switch (n.mode) {
      case TreeMode::leq:
        return at_or_below(id, n, n.value, n.if_true, n.if_false, missing);
      case TreeMode::lt:
        return at_or_below(id, n, below(n.value), n.if_true, n.if_false, missing);
      case TreeMode::gt:
        if (std::isnan(n.value)) return never(id, n);
        return at_or_below(id, n, n.value, n.if_false, n.if_true, !missing);
      case TreeMode::gte:
        if (std::isnan(n.value)) return never(id, n);
        if (std::isinf(n.value) && n.value < 0) return always(id, n, n.if_true, n.if_false);
        return at_or_below(id, n, below(n.value), n.if_false, n.if_true, !missing);
      case TreeMode::eq:
        return in_set(id, n, {n.value}, n.if_true, n.if_false, missing ? n.if_true : n.if_false);
      case TreeMode::neq:
        // NaN differs from every value.
        return in_set(id, n, {n.value}, n.if_false, n.if_true, n.if_true);
      case TreeMode::member:
        return in_set(id, n, {trees_.members.begin() + n.first, trees_.members.begin() + n.end}, n.if_true, n.if_false,
                      missing ? n.if_true : n.if_false);
    }
  }

  /// Returns the largest value below `value`, or NaN if there is none, since no x is at most NaN.
  double below(double value) {
    if (std::isinf(value) && value < 0) return std::numeric_limits<double>::quiet_NaN();
    const double floor = at_most(value, wide_);
    return floor < value ? floor : before(floor, wide_);
  }

  Step& step(int32_t id) { return steps_[static_cast<size_t>(id)]; }

  void at_or_below(int32_t id, const TreeNode& n, double value, int32_t left, int32_t right, bool nan_left) {
    if (std::isnan(value)) return never(id, n);
    step(id) = {-1, n.feature, at_most(value, wide_), nan_left, left, right};
  }

  /// The condition is false, except for NaN if missing values track true.
  void never(int32_t id, const TreeNode& n) {
    step(id) = {-1, n.feature, kInfinity, false, n.if_false, n.missing_true ? n.if_true : n.if_false};
  }

  /// Every x goes to `child`; NaN follows the mode `missing_true`; otherwise it goes to `other`.
  void always(int32_t id, const TreeNode& n, int32_t child, int32_t other) {
    step(id) = {-1, n.feature, kInfinity, false, child, n.missing_true ? child : other};
  }

  /// x in the set goes to `in`, NaN to `nan`, and all others to `out`.
  void in_set(int32_t id, const TreeNode& n, std::vector<double> set, int32_t in, int32_t out, int32_t nan) {
    std::erase_if(set, [&](double v) { return at_most(v, wide_) != v; });  // no x equals these, among them NaN
    std::ranges::sort(set);
    std::vector<Segment> segments;
    const auto add = [&](double threshold, int32_t child) {
      if (!segments.empty() && segments.back().threshold >= threshold) return;
      if (!segments.empty() && segments.back().child == child) segments.pop_back();
      segments.push_back({threshold, child});
    };
    for (const double value : set) {
      if (!std::isinf(value) || value > 0) add(before(value, wide_), out);
      add(value, in);
    }
    add(kInfinity, out);
    if (segments.back().child == nan && segments.size() > 1)
      return split(id, n.feature, segments, 0, segments.size() - 1);
    const int32_t inner = segments.size() == 1 ? segments[0].child : append();
    step(id) = {-1, n.feature, kInfinity, false, inner, nan};
    if (segments.size() > 1) split(inner, n.feature, segments, 0, segments.size() - 1);
  }

  int32_t append() {
    steps_.emplace_back();
    return static_cast<int32_t>(steps_.size()) - 1;
  }

  /// Makes step `id` a search in segments [first, last], first < last. NaN leads to the last one.
  void split(int32_t id, int64_t feature, const std::vector<Segment>& segments, size_t first, size_t last) {
    const size_t middle = first + (last - first) / 2;
    const auto part = [&](size_t a, size_t b) {
      if (a == b) return segments[a].child;
      const int32_t made = append();
      split(made, feature, segments, a, b);
      return made;
    };
    const int32_t left = part(first, middle), right = part(middle + 1, last);
    step(id) = {-1, feature, segments[middle].threshold, false, left, right};
  }

  const TreeEnsemble& trees_;
  const bool wide_;
  std::vector<Step> steps_;
};

/// What a step leads to.
struct Below {
  static constexpr int64_t kMixed = -1;
  int32_t depth = -1;  ///< conditions up to the farthest leaf; -1: not known yet
  int64_t target = 0;  ///< of all leaves, if each has one value and it is not NaN; otherwise kMixed
};

Below below_leaf(const TreeEnsemble& trees, const TreeNode& leaf) {
  if (leaf.end - leaf.first != 1) return {0, Below::kMixed};
  const TreeWeight& weight = trees.weights[static_cast<size_t>(leaf.first)];
  return {0, std::isnan(weight.value) ? Below::kMixed : weight.target};
}

/// Returns what every step below a root leads to.
std::vector<Below> all_below(const TreeEnsemble& trees, const std::vector<Step>& steps) {
  std::vector<Below> all(steps.size());
  std::vector<int32_t> stack;
  for (const int32_t root : trees.roots) {
    stack.push_back(root);
    while (!stack.empty()) {
      const auto at = static_cast<size_t>(stack.back());
      const Step& s = steps[at];
      if (s.leaf >= 0) {
        all[at] = below_leaf(trees, trees.nodes[static_cast<size_t>(s.leaf)]);
      } else if (all[at].depth < 0) {
        const Below left = all[static_cast<size_t>(s.left)], right = all[static_cast<size_t>(s.right)];
        if (left.depth < 0) stack.push_back(s.left);
        if (right.depth < 0) stack.push_back(s.right);
        if (left.depth < 0 || right.depth < 0) continue;
        all[at] = {1 + std::max(left.depth, right.depth), left.target == right.target ? left.target : Below::kMixed};
      }
      stack.pop_back();
    }
  }
  return all;
}

class Packer {
 public:
  Packer(const TreeEnsemble& trees, const std::vector<Step>& steps, int64_t features, bool wide)
      : trees_(trees), steps_(steps), wide_(wide) {
    out_.columns.features = features;
  }

  std::optional<PackedTrees> run() {
    const std::vector<Below> below = all_below(trees_, steps_);
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (steps_[i].leaf >= 0 || below[i].depth < 0) continue;
      (steps_[i].nan_left ? out_.columns.cleaned : out_.columns.raw) = true;
    }
    bool single = true;
    for (const int32_t root : trees_.roots) {
      const Below& b = below[static_cast<size_t>(root)];
      out_.depths.push_back(b.depth);
      out_.targets.push_back(static_cast<int32_t>(b.target));
      single = single && b.target != Below::kMixed;
    }
    out_.depth = *std::ranges::max_element(out_.depths);
    out_.feature_bits = std::bit_width(static_cast<uint64_t>(out_.columns.width() - 1));
    const bool extremum = trees_.aggregate == TreeAggregate::min || trees_.aggregate == TreeAggregate::max;
    if (extremum && (!single || trees_.targets != 1)) return std::nullopt;
    if (!single) make_rows();
    if (out_.feature_bits >= 32 || !place_all()) return std::nullopt;
    return std::move(out_);
  }

 private:
  void make_rows() {
    out_.targets.clear();
    rows_.assign(trees_.nodes.size(), 0);
    const auto width = static_cast<size_t>(trees_.targets);
    for (size_t i = 0; i < trees_.nodes.size(); ++i) {
      const TreeNode& n = trees_.nodes[i];
      if (!n.leaf) continue;
      rows_[i] = static_cast<uint32_t>(out_.rows.size() / width);
      std::vector<double> row(width);
      for (int64_t w = n.first; w < n.end; ++w) {
        const TreeWeight& weight = trees_.weights[static_cast<size_t>(w)];
        row[static_cast<size_t>(weight.target)] += weight.value;
      }
      out_.rows.insert(out_.rows.end(), row.begin(), row.end());
    }
  }

  uint64_t bits(double value) const {
    return wide_ ? std::bit_cast<uint64_t>(value) : std::bit_cast<uint32_t>(static_cast<float>(value));
  }

  /// Writes record `at`, and allocates the records of the children if the step has none yet.
  void place(int32_t id, size_t at) {
    const Step& s = steps_[static_cast<size_t>(id)];
    uint64_t left = at, word = 0;
    int64_t column = out_.columns.width() - 1;
    if (s.leaf >= 0) {
      const TreeNode& leaf = trees_.nodes[static_cast<size_t>(s.leaf)];
      word = out_.rows.empty() ? bits(trees_.weights[static_cast<size_t>(leaf.first)].value)
                               : rows_[static_cast<size_t>(s.leaf)];
    } else {
      uint64_t& children = children_[static_cast<size_t>(id)];
      if (children == 0) {
        children = count_;
        count_ += 2;
        out_.records.resize(2 * count_);
        open_.push_back(id);
      }
      left = children;
      word = bits(s.threshold);
      column = (s.nan_left ? out_.columns.first_cleaned() : 0) + s.feature;
    }
    out_.records[2 * at] = word;
    out_.records[2 * at + 1] = left << out_.feature_bits | static_cast<uint64_t>(column);
  }

  /// Places all trees, each in the order of its levels. Returns false if there are too many records.
  bool place_all() {
    const uint64_t most = uint64_t{1} << (wide_ ? 32 : 32 - out_.feature_bits);
    children_.assign(steps_.size(), 0);
    count_ = trees_.roots.size();
    out_.records.resize(2 * count_);
    for (size_t t = 0; t < trees_.roots.size(); ++t) {
      place(trees_.roots[t], t);
      for (size_t i = 0; i < open_.size(); ++i) {
        const Step& s = steps_[static_cast<size_t>(open_[i])];
        const auto at = static_cast<size_t>(children_[static_cast<size_t>(open_[i])]);
        place(s.left, at);
        place(s.right, at + 1);
        if (count_ > most) return false;
      }
      open_.clear();
    }
    return count_ <= most;
  }

  const TreeEnsemble& trees_;
  const std::vector<Step>& steps_;
  const bool wide_;
  PackedTrees out_;
  std::vector<uint64_t> children_;  ///< by step: the index of its left child's record; 0: none yet
  std::vector<uint32_t> rows_;      ///< by leaf
  std::vector<int32_t> open_;       ///< steps whose children are to be placed
  uint64_t count_ = 0;
};

}  // namespace

std::optional<PackedTrees> pack_trees(const TreeEnsemble& trees, int64_t features, bool wide) {
  constexpr int64_t kMostRows = int64_t{1} << 24;  // elements of PackedTrees::rows, so that they stay in memory
  if (trees.targets > kMostRows / static_cast<int64_t>(trees.nodes.size())) return std::nullopt;
  const Steps steps(trees, wide);
  return Packer(trees, steps.steps(), features, wide).run();
}

}  // namespace kilter
