#include "ops/support/tree_ensemble.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <unordered_set>

#include "ops/support/operands.h"

namespace kilter {
namespace {

constexpr size_t kMostNodes = size_t{1} << 30;

/// Returns the numbers of attribute `key`, floats, or of `key`_as_tensor.
std::vector<double> reals(const Node& node, const std::string& key) {
  const std::vector<float> floats = node.floats_attr(key);
  const Tensor* tensor = node.tensor_attr(key + "_as_tensor");
  if (tensor == nullptr) return {floats.begin(), floats.end()};
  if (!floats.empty()) {
    node_error(node, fmt::format("attributes {} and {}_as_tensor are both set; expected one of them", key, key));
  }
  if (!is_float(tensor->dtype())) {
    node_error(node,
               fmt::format("attribute {}_as_tensor has element type {}, expected floats", key, name(tensor->dtype())));
  }
  return load_doubles(*tensor);
}

std::optional<TreeMode> mode_of(std::string_view text) {
  static constexpr std::array<std::string_view, 7> kNames = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",   "BRANCH_GT",
                                                             "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER"};
  const auto* const at = std::ranges::find(kNames, text);
  if (at == kNames.end()) return std::nullopt;
  return static_cast<TreeMode>(at - kNames.begin());
}

void check_length(const Node& node, std::string_view key, size_t expected, size_t got) {
  if (expected == got) return;
  node_error(node, fmt::format("attribute {} has {} entries, expected {}", key, got, expected));
}

void check_node_count(const Node& node, size_t count) {
  if (count > kMostNodes) node_error(node, fmt::format("has {} nodes; the limit is {}", count, kMostNodes));
}

/// The ids of nodes, by which children and leaves name them.
class NodeIds {
 public:
  NodeIds(const Node& node, const std::vector<int64_t>& trees, const std::vector<int64_t>& ids)
      : node_(node), trees_(trees), ids_(ids), order_(ids.size()) {
    std::iota(order_.begin(), order_.end(), 0);
    std::ranges::stable_sort(order_, {}, [&](int32_t i) { return key(i); });
    for (size_t k = 1; k < order_.size(); ++k) {
      if (key(order_[k]) != key(order_[k - 1])) continue;
      const auto [tree, id] = key(order_[k]);
      node_error(node, fmt::format("node {} of tree {} occurs twice", id, tree));
    }
  }

  /// Returns the index of a node. `what()` says which one names it, for the error.
  template <class What>
  int32_t find(int64_t tree, int64_t id, What what) const {
    const auto at = std::ranges::lower_bound(order_, std::pair(tree, id), {}, [&](int32_t i) { return key(i); });
    if (at != order_.end() && key(*at) == std::pair(tree, id)) return *at;
    node_error(node_, fmt::format("{} names node {} of tree {}, which does not exist", what(), id, tree));
  }

 private:
  std::pair<int64_t, int64_t> key(int32_t i) const {
    return {trees_[static_cast<size_t>(i)], ids_[static_cast<size_t>(i)]};
  }
  const Node& node_;
  const std::vector<int64_t>&trees_, &ids_;
  std::vector<int32_t> order_;
};

/// Throws node_error if a node is its own descendant.
void check_acyclic(const Node& node, const TreeEnsemble& trees) {
  enum class State : uint8_t { unseen, open, done };
  std::vector<State> states(trees.nodes.size());
  std::vector<int32_t> stack;
  for (size_t start = 0; start < states.size(); ++start) {
    stack.push_back(static_cast<int32_t>(start));
    while (!stack.empty()) {
      const auto at = static_cast<size_t>(stack.back());
      const TreeNode& n = trees.nodes[at];
      if (states[at] != State::unseen || n.leaf) {
        states[at] = State::done;
        stack.pop_back();
        continue;
      }
      states[at] = State::open;
      for (const int32_t child : {n.if_false, n.if_true}) {
        const State state = states[static_cast<size_t>(child)];
        if (state == State::open)
          node_error(node, fmt::format("node {} in the list of nodes is its own descendant", child));
        if (state == State::unseen) stack.push_back(child);
      }
    }
  }
}

/// Sets the leaves' ranges of weights: the entries of the lists, sorted by node.
void read_leaf_lists(const Node& node, const std::string& what, const NodeIds& ids, TreeEnsemble& trees) {
  const std::vector<int64_t> of_trees = node.ints_attr(what + "_treeids"), of_nodes = node.ints_attr(what + "_nodeids");
  const std::vector<int64_t> targets = node.ints_attr(what + "_ids");
  const std::vector<double> values = reals(node, what + "_weights");
  check_length(node, what + "_treeids", targets.size(), of_trees.size());
  check_length(node, what + "_nodeids", targets.size(), of_nodes.size());
  check_length(node, what + "_weights", targets.size(), values.size());
  std::vector<std::pair<int32_t, size_t>> order;
  for (size_t i = 0; i < targets.size(); ++i) {
    const auto who = [&] { return fmt::format("entry {} of attribute {}_nodeids", i, what); };
    order.emplace_back(ids.find(of_trees[i], of_nodes[i], who), i);
  }
  std::ranges::stable_sort(order, {}, &std::pair<int32_t, size_t>::first);
  for (const auto& [leaf, i] : order) {
    TreeNode& n = trees.nodes[static_cast<size_t>(leaf)];
    if (!n.leaf) continue;  // weights of other nodes never count
    if (n.end == 0) n.first = static_cast<int64_t>(trees.weights.size());
    trees.weights.push_back({targets[i], values[i]});
    n.end = static_cast<int64_t>(trees.weights.size());
  }
}

/// Returns the first node of every tree, in the order of the list.
std::vector<int32_t> find_roots(const std::vector<int64_t>& tree_ids) {
  std::vector<int32_t> roots;
  std::unordered_set<int64_t> seen;
  for (size_t i = 0; i < tree_ids.size(); ++i) {
    if (seen.insert(tree_ids[i]).second) roots.push_back(static_cast<int32_t>(i));
  }
  return roots;
}

bool condition(const TreeEnsemble& trees, const TreeNode& n, double x) {
  if (std::isnan(x) && n.missing_true) return true;
  switch (n.mode) {
    case TreeMode::leq:
      return x <= n.value;
    case TreeMode::lt:
      return x < n.value;
    case TreeMode::gte:
      return x >= n.value;
    case TreeMode::gt:
      return x > n.value;
    case TreeMode::eq:
      return x == n.value;
    case TreeMode::neq:
      return x != n.value;
    case TreeMode::member:
      return std::find(trees.members.begin() + n.first, trees.members.begin() + n.end, x) !=
             trees.members.begin() + n.end;
  }
  return false;
}

void combine(TreeAggregate how, TreeScore& score, double value) {
  const bool first = !score.present;
  score.present = true;
  if (how == TreeAggregate::min || how == TreeAggregate::max) {
    score.value = first                       ? value
                  : how == TreeAggregate::min ? std::min(score.value, value)
                                              : std::max(score.value, value);
  } else {
    score.value += value;
  }
}

/// Reads the lists about the nodes of a TreeEnsemble, except the children.
TreeEnsemble read_conditions(const Node& node) {
  TreeEnsemble trees;
  const std::vector<int64_t> features = node.ints_attr("nodes_featureids");
  const std::vector<int64_t> missing = node.ints_attr("nodes_missing_value_tracks_true");
  const Tensor *modes = node.tensor_attr("nodes_modes"), *splits = node.tensor_attr("nodes_splits");
  const size_t count = features.size();
  check_node_count(node, count);
  if (modes == nullptr || modes->dtype() != DType::u8) node_error(node, "attribute nodes_modes is not a tensor of u8");
  if (splits == nullptr || !is_float(splits->dtype()))
    node_error(node, "attribute nodes_splits is not a tensor of floats");
  check_length(node, "nodes_modes", count, static_cast<size_t>(modes->elems()));
  check_length(node, "nodes_splits", count, static_cast<size_t>(splits->elems()));
  if (!missing.empty()) check_length(node, "nodes_missing_value_tracks_true", count, missing.size());
  const std::vector<double> values = load_doubles(*splits);
  if (const Tensor* members = node.tensor_attr("membership_values")) {
    if (!is_float(members->dtype())) node_error(node, "attribute membership_values is not a tensor of floats");
    trees.members = load_doubles(*members);
  }
  int64_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    TreeNode n;
    const int64_t mode = modes->as_int(static_cast<int64_t>(i));
    if (mode > static_cast<int64_t>(TreeMode::member)) {
      node_error(node, fmt::format("entry {} of attribute nodes_modes is {}; legal values are 0 to 6", i, mode));
    }
    n.mode = static_cast<TreeMode>(mode);
    n.feature = features[i], n.value = values[i], n.missing_true = !missing.empty() && missing[i] != 0;
    if (n.mode == TreeMode::member) {  // its set ends with NaN
      n.first = at;
      const auto nan =
          std::find_if(trees.members.begin() + at, trees.members.end(), [](double v) { return std::isnan(v); });
      if (nan == trees.members.end()) {
        node_error(node, fmt::format("attribute membership_values has no set for node {}; each set ends with NaN", i));
      }
      n.end = nan - trees.members.begin();
      at = n.end + 1;
    }
    trees.nodes.push_back(n);
  }
  return trees;
}

/// Appends the leaves of a TreeEnsemble to its nodes.
void read_leaves(const Node& node, TreeEnsemble& trees) {
  const std::vector<int64_t> targets = node.ints_attr("leaf_targetids");
  const Tensor* weights = node.tensor_attr("leaf_weights");
  if (weights == nullptr || !is_float(weights->dtype())) {
    node_error(node, "attribute leaf_weights is not a tensor of floats");
  }
  check_length(node, "leaf_weights", targets.size(), static_cast<size_t>(weights->elems()));
  check_node_count(node, trees.nodes.size() + targets.size());
  for (size_t i = 0; i < targets.size(); ++i) {
    trees.weights.push_back({targets[i], weights->as_double(static_cast<int64_t>(i))});
    TreeNode n;
    n.leaf = true;
    n.first = static_cast<int64_t>(i), n.end = n.first + 1;
    trees.nodes.push_back(n);
  }
}

}  // namespace

TreeEnsemble read_listed_trees(const Node& node, const std::string& what) {
  const std::vector<int64_t> tree_ids = node.ints_attr("nodes_treeids"), ids = node.ints_attr("nodes_nodeids");
  const std::vector<int64_t> features = node.ints_attr("nodes_featureids");
  const std::vector<int64_t> if_true = node.ints_attr("nodes_truenodeids"),
                             if_false = node.ints_attr("nodes_falsenodeids");
  const std::vector<int64_t> missing = node.ints_attr("nodes_missing_value_tracks_true");
  const std::vector<std::string> modes = strings_attr(node, "nodes_modes");
  const std::vector<double> values = reals(node, "nodes_values");
  const size_t count = tree_ids.size();
  if (count == 0) node_error(node, "attribute nodes_treeids is empty, expected one tree or more");
  check_node_count(node, count);
  check_length(node, "nodes_nodeids", count, ids.size());
  check_length(node, "nodes_featureids", count, features.size());
  check_length(node, "nodes_truenodeids", count, if_true.size());
  check_length(node, "nodes_falsenodeids", count, if_false.size());
  check_length(node, "nodes_modes", count, modes.size());
  check_length(node, "nodes_values", count, values.size());
  if (!missing.empty()) check_length(node, "nodes_missing_value_tracks_true", count, missing.size());
  const NodeIds places(node, tree_ids, ids);
  TreeEnsemble trees;
  for (size_t i = 0; i < count; ++i) {
    TreeNode n;
    n.leaf = modes[i] == "LEAF";
    if (!n.leaf) {
      const std::optional<TreeMode> mode = mode_of(modes[i]);
      if (!mode || *mode == TreeMode::member) {
        node_error(node,
                   fmt::format("entry {} of attribute nodes_modes is '{}'; legal values are BRANCH_LEQ, BRANCH_LT, "
                               "BRANCH_GTE, BRANCH_GT, BRANCH_EQ, BRANCH_NEQ and LEAF",
                               i, modes[i]));
      }
      n.mode = *mode;
      n.feature = features[i], n.value = values[i], n.missing_true = !missing.empty() && missing[i] != 0;
      const auto who = [&] { return fmt::format("node {} of tree {}", ids[i], tree_ids[i]); };
      n.if_true = places.find(tree_ids[i], if_true[i], who);
      n.if_false = places.find(tree_ids[i], if_false[i], who);
    }
    trees.nodes.push_back(n);
  }
  trees.roots = find_roots(tree_ids);
  read_leaf_lists(node, what, places, trees);
  trees.base_values = reals(node, "base_values");
  check_acyclic(node, trees);
  return trees;
}

TreeEnsemble read_linked_trees(const Node& node) {
  TreeEnsemble trees = read_conditions(node);
  const size_t count = trees.nodes.size();
  read_leaves(node, trees);
  const auto leaves = static_cast<int64_t>(trees.nodes.size() - count);
  struct Side {
    std::string_view ids, leafs;
    int32_t TreeNode::* child;
  };
  for (const Side& side : {Side{"nodes_truenodeids", "nodes_trueleafs", &TreeNode::if_true},
                           Side{"nodes_falsenodeids", "nodes_falseleafs", &TreeNode::if_false}}) {
    const std::vector<int64_t> ids = node.ints_attr(side.ids), leafs = node.ints_attr(side.leafs);
    check_length(node, side.ids, count, ids.size());
    check_length(node, side.leafs, count, leafs.size());
    for (size_t i = 0; i < count; ++i) {
      const int64_t limit = leafs[i] != 0 ? leaves : static_cast<int64_t>(count);
      if (ids[i] < 0 || ids[i] >= limit) {
        node_error(node, fmt::format("entry {} of attribute {} is {}; there are {} {}", i, side.ids, ids[i], limit,
                                     leafs[i] != 0 ? "leaves" : "nodes"));
      }
      trees.nodes[i].*side.child = static_cast<int32_t>(ids[i] + (leafs[i] != 0 ? static_cast<int64_t>(count) : 0));
    }
  }
  for (const int64_t root : node.ints_attr("tree_roots")) {
    if (root < 0 || root >= static_cast<int64_t>(count)) {
      node_error(node, fmt::format("attribute tree_roots has {}; there are {} nodes", root, count));
    }
    const TreeNode& n = trees.nodes[static_cast<size_t>(root)];
    // A node with one leaf as both children stands for a tree that is this leaf.
    const bool single = n.if_true == n.if_false && static_cast<size_t>(n.if_true) >= count;
    trees.roots.push_back(single ? n.if_true : static_cast<int32_t>(root));
  }
  if (trees.roots.empty()) node_error(node, "attribute tree_roots is empty, expected one tree or more");
  check_acyclic(node, trees);
  return trees;
}

void check_ranges(const Node& node, const TreeEnsemble& trees, int64_t columns) {
  for (size_t i = 0; i < trees.nodes.size(); ++i) {
    const TreeNode& n = trees.nodes[i];
    if (n.leaf || (n.feature >= 0 && n.feature < columns)) continue;
    node_error(node, fmt::format("entry {} of attribute nodes_featureids is {}, but the input has {} features", i,
                                 n.feature, columns));
  }
  for (const TreeWeight& w : trees.weights) {
    if (w.target >= 0 && w.target < trees.targets) continue;
    node_error(node, fmt::format("a leaf has target {}; there are {} targets", w.target, trees.targets));
  }
}

void evaluate_row(const TreeEnsemble& trees, std::span<const double> row, std::span<TreeScore> scores) {
  std::ranges::fill(scores, TreeScore{});
  for (const int32_t root : trees.roots) {
    const TreeNode* n = &trees.nodes[static_cast<size_t>(root)];
    while (!n->leaf) {
      n = &trees.nodes[static_cast<size_t>(condition(trees, *n, row[static_cast<size_t>(n->feature)]) ? n->if_true
                                                                                                      : n->if_false)];
    }
    for (int64_t w = n->first; w < n->end; ++w) {
      const TreeWeight& weight = trees.weights[static_cast<size_t>(w)];
      combine(trees.aggregate, scores[static_cast<size_t>(weight.target)], weight.value);
    }
  }
  if (trees.aggregate != TreeAggregate::average) return;
  for (TreeScore& score : scores) score.value /= static_cast<double>(trees.roots.size());
}

void load_row(const Tensor& x, int64_t row, std::span<double> to) {
  const auto columns = static_cast<int64_t>(to.size());
  for (int64_t c = 0; c < columns; ++c) {
    const double value = x.as_double(row * columns + c);
    to[static_cast<size_t>(c)] = is_float(x.dtype()) ? value : static_cast<double>(static_cast<float>(value));
  }
}

}  // namespace kilter
