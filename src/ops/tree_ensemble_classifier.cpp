#include <algorithm>
#include <set>

#include "ops/support/operands.h"
#include "ops/support/tree_sums.h"

namespace kilter {
namespace {

/// A classifier. Two classes whose leaves all score one of them are `binary`; then the label is the second class where
/// that score exceeds a limit. The labels of two classes that both have scores, and of one class, are 1 and 0.
struct TreeClassifier {
  TreeEnsemble trees;
  LabelList labels;
  bool binary = false;
  bool positive = true;  ///< no leaf is below 0

  double limit() const { return binary && positive ? 0.5 : 0; }
  /// The labels where the score is at or below the limit, and above it.
  LabelList two_labels() const {
    if (binary || (labels.of_strings() && labels.size() == 2)) return labels;
    if (labels.of_strings()) return {{}, {labels.strings[0], labels.strings[0]}};
    return {{0, 1}, {}};
  }
};

TreeClassifier read_classifier(const Node& node, int64_t columns) {
  TreeClassifier c;
  c.labels = label_list(node, "classlabels_int64s", "classlabels_strings");
  if (c.labels.size() == 0) node_error(node, "has no class labels, expected classlabels_int64s or classlabels_strings");
  c.trees = read_listed_trees(node, "class");
  c.trees.targets = static_cast<int64_t>(c.labels.size());
  c.trees.how = post_transform_of(node);
  check_ranges(node, c.trees, columns);
  std::set<int64_t> used;
  for (const TreeWeight& w : c.trees.weights) {
    used.insert(w.target);
    c.positive = c.positive && !(w.value < 0);
  }
  c.binary = c.labels.size() == 2 && used.size() == 1;
  const size_t base = c.trees.base_values.size();
  if (base != 0 && base != c.labels.size() && !(c.labels.size() == 2 && base == 1)) {
    node_error(node, fmt::format("attribute base_values has {} numbers, expected {}, one for each class", base,
                                 c.labels.size()));
  }
  return c;
}

/// Replaces the score of one of two classes by the scores of both.
void both_scores(const TreeClassifier& c, std::vector<double>& scores) {
  const double s = scores[0];
  if (c.trees.how == PostTransform::logistic) {
    scores = {-s, s};
    return transform_scores(c.trees.how, scores);
  }
  transform_scores(c.trees.how, scores);
  scores = {c.limit() > 0 ? 1 - scores[0] : -scores[0], scores[0]};
}

/// Computes the scores of two classes from the sums of their leaves; returns whether the second class is the label.
/// With two base values and leaves of the second class, the sum of that class does not count.
bool score_two(const TreeClassifier& c, std::span<TreeScore> sums, std::vector<double>& scores) {
  TreeScore &first = sums[0], &second = sums[1];
  const std::vector<double>& base = c.trees.base_values;
  if (base.size() == 2 && second.present) {
    second.value = base[1] + first.value;
    first.value = -second.value;
  } else if (!base.empty() && first.present) {
    first.value += base[0];
  }
  const double decisive = second.present ? second.value : first.value;
  if (second.present || base.size() == 2) {
    scores = {first.present ? first.value : 0, second.present ? second.value : 0};
    transform_scores(c.trees.how, scores);
  } else {
    scores = {decisive};
    both_scores(c, scores);
  }
  return decisive > c.limit();
}

/// Computes the scores of three or more classes; returns the class with the largest one, among those that have any.
size_t score_many(const TreeClassifier& c, std::span<TreeScore> sums, std::vector<double>& scores) {
  std::optional<size_t> best;
  scores.clear();
  for (size_t k = 0; k < sums.size(); ++k) {
    const bool based = !c.trees.base_values.empty();
    scores.push_back(sums[k].value + (based ? c.trees.base_values[k] : 0));
    if ((sums[k].present || based) && (!best || scores[k] > scores[*best])) best = k;
  }
  transform_scores(c.trees.how, scores);
  return best.value_or(0);
}

void infer(InferContext& ctx) {
  check_types(FeatureTypes{}, ctx, 0);
  const FeatureRows rows = feature_rows(ctx.node, ctx.shape(0));
  const TreeClassifier c = read_classifier(ctx.node, rows.columns);
  ctx.set(0, c.labels.dtype(), {rows.count});
  ctx.set(1, DType::f32, {rows.count, c.trees.targets});
}

void reference(ReferenceContext& ctx) {
  const FeatureRows rows = feature_rows(ctx.node, ctx.in(0).shape());
  const TreeClassifier c = read_classifier(ctx.node, rows.columns);
  const Tensor labels = (c.labels.size() > 2 ? c.labels : c.two_labels()).tensor();
  std::vector<double> row(static_cast<size_t>(rows.columns)), scores, all;
  std::vector<TreeScore> sums(c.labels.size());
  for (int64_t i = 0; i < rows.count; ++i) {
    load_row(ctx.in(0), i, row);
    evaluate_row(c.trees, row, sums);
    size_t found = 0;
    if (sums.size() == 2) {
      found = score_two(c, sums, scores) ? 1 : 0;
    } else {
      found = score_many(c, sums, scores);
      if (sums.size() == 1)
        found = sums[0].value + (c.trees.base_values.empty() ? 0 : c.trees.base_values[0]) > 0 ? 1 : 0;
    }
    if (ctx.wants(0)) copy_element(labels, static_cast<int64_t>(found), ctx.out(), i);
    all.insert(all.end(), scores.begin(), scores.end());
  }
  if (ctx.wants(1)) store_doubles(ctx.out(1), all);
}

// ---- Expansion ----

/// Returns the classes of which every row has leaves: those that all leaves of one tree score.
std::vector<bool> always_scored(const TreeEnsemble& trees) {
  std::vector<bool> always(static_cast<size_t>(trees.targets));
  std::vector<int64_t> leaves_of(always.size());  // of the current tree
  std::vector<int64_t> last(always.size(), -1);   // the last leaf that scored the class
  std::vector<bool> seen(trees.nodes.size());
  for (const int32_t root : trees.roots) {
    std::vector<int32_t> stack = {root};
    std::vector<int64_t> scored;
    int64_t leaves = 0;
    while (!stack.empty()) {
      const int32_t id = stack.back();
      const auto at = static_cast<size_t>(id);
      stack.pop_back();
      if (seen[at]) continue;
      seen[at] = true;
      const TreeNode& n = trees.nodes[at];
      if (!n.leaf) {
        stack.push_back(n.if_true), stack.push_back(n.if_false);
        continue;
      }
      ++leaves;
      for (int64_t w = n.first; w < n.end; ++w) {
        const auto target = static_cast<size_t>(trees.weights[static_cast<size_t>(w)].target);
        if (last[target] == id) continue;
        last[target] = id;
        ++leaves_of[target];
        scored.push_back(static_cast<int64_t>(target));
      }
    }
    for (const int64_t target : scored) {
      int64_t& count = leaves_of[static_cast<size_t>(target)];
      if (count == leaves) always[static_cast<size_t>(target)] = true;
      count = 0;
    }
  }
  return always;
}

ValueId side_by_side(ExpandContext& ctx, ValueId a, ValueId b) {
  return ctx.add("Concat", {a, b}, {{"axis", int64_t{1}}});
}

/// Returns the labels of rows by a score [n, 1].
ValueId by_limit(ExpandContext& ctx, const TreeClassifier& c, ValueId score) {
  const ValueId above = ctx.add("Greater", {score, ctx.scalar(DType::f32, c.limit())});
  const int64_t rows = ctx.builder.type(score).shape[0];
  const ValueId flat = ctx.add("Reshape", {above, ctx.builder.list(std::vector<int64_t>{rows})});
  return labels_at(ctx, c.two_labels(), converted(ctx, flat, DType::i64));
}

/// Two classes of which only class `target` has scores, in every row. The forest becomes one with a single target.
std::vector<ValueId> expand_binary(ExpandContext& ctx, TreeClassifier c, int64_t target, ValueId x) {
  const std::vector<double> base = c.trees.base_values;
  if (target == 1 && base.size() == 2) return unexpanded(ctx, 2);
  for (TreeWeight& w : c.trees.weights) w.target = 0;
  c.trees.targets = 1;
  c.trees.base_values = target == 1 || base.empty() ? std::vector<double>{} : std::vector<double>{base[0]};
  std::optional<ValueId> score = tree_scores(ctx, c.trees, x);
  if (!score) return unexpanded(ctx, 2);
  score = converted(ctx, *score, DType::f32);
  const PostTransform how = c.trees.how;
  const ValueId y = by_limit(ctx, c, *score);
  const auto negative = [&] { return ctx.add("Neg", {*score}); };
  if (target == 1 || base.size() == 2) {
    const ValueId zero = ctx.add("Mul", {*score, ctx.scalar(DType::f32, 0)});
    return {y, transformed(ctx, how, target == 1 ? side_by_side(ctx, zero, *score) : side_by_side(ctx, *score, zero))};
  }
  if (how == PostTransform::logistic) return {y, transformed(ctx, how, side_by_side(ctx, negative(), *score))};
  if (how == PostTransform::probit) return unexpanded(ctx, 2);
  const ValueId other = c.limit() > 0 ? ctx.add("Sub", {ctx.scalar(DType::f32, 1), *score}) : negative();
  return {y, side_by_side(ctx, other, *score)};
}

std::vector<ValueId> expand(ExpandContext& ctx) {
  const FeatureRows rows = feature_rows(ctx.node, ctx.type(0).shape);
  const TreeClassifier c = read_classifier(ctx.node, rows.columns);
  const size_t classes = c.labels.size();
  const bool based = !c.trees.base_values.empty();
  if (rows.count == 0 || classes == 1) return unexpanded(ctx, 2);
  const std::vector<bool> always = always_scored(c.trees);
  if (c.binary) {
    const int64_t target = c.trees.weights[0].target;
    if (!always[static_cast<size_t>(target)]) return unexpanded(ctx, 2);
    return expand_binary(ctx, c, target, tree_features(ctx));
  }
  const bool all = std::ranges::all_of(always, [](bool scored) { return scored; });
  if (classes == 2 ? (!all || based) : (!all && !based)) return unexpanded(ctx, 2);
  std::optional<ValueId> scores = tree_scores(ctx, c.trees, tree_features(ctx));
  if (!scores) return unexpanded(ctx, 2);
  scores = converted(ctx, *scores, DType::f32);
  const ValueId z = transformed(ctx, c.trees.how, *scores);
  if (classes == 2) {
    const ValueId second =
        ctx.add("Gather", {*scores, ctx.builder.list(std::vector<int64_t>{1})}, {{"axis", int64_t{1}}});
    return {by_limit(ctx, c, second), z};
  }
  const ValueId best = ctx.add("ArgMax", {*scores}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}});
  return {labels_at(ctx, c.labels, best), z};
}

int64_t flops(const OpView& view) {
  const FeatureRows rows = feature_rows(view.node, view.inputs[0].shape);
  return rows.count * static_cast<int64_t>(view.node.ints_attr("nodes_featureids").size());
}

}  // namespace

KILTER_OP(TreeEnsembleClassifier){
    .name = "TreeEnsembleClassifier",
    .domain = kMlDomain,
    .min_outputs = 2,
    .max_outputs = 2,
    .attrs = {{"base_values", "floats", ""},
              {"base_values_as_tensor", "tensor", ""},
              {"class_ids", "ints", "required"},
              {"class_nodeids", "ints", "required"},
              {"class_treeids", "ints", "required"},
              {"class_weights", "floats", ""},
              {"class_weights_as_tensor", "tensor", ""},
              {"classlabels_int64s", "ints", ""},
              {"classlabels_strings", "strings", ""},
              {"nodes_falsenodeids", "ints", "required"},
              {"nodes_featureids", "ints", "required"},
              {"nodes_hitrates", "floats", ""},
              {"nodes_hitrates_as_tensor", "tensor", ""},
              {"nodes_missing_value_tracks_true", "ints", ""},
              {"nodes_modes", "strings", "required"},
              {"nodes_nodeids", "ints", "required"},
              {"nodes_treeids", "ints", "required"},
              {"nodes_truenodeids", "ints", "required"},
              {"nodes_values", "floats", ""},
              {"nodes_values_as_tensor", "tensor", ""},
              {"post_transform", "string", "NONE"}},
    .summary =
        "y [n] = the labels of the classes with the largest scores, z [n, classes] = post_transform(scores), with "
        "scores = the sums of the leaves that x [n, c] or [c] reaches, plus base_values. Of two classes, the label is "
        "decided by one score: it is the second class above 0, or above 0.5 if only one class has leaves and none is "
        "negative; if both have leaves, integer labels are 1 and 0.",
    .infer = infer,
    .reference = reference,
    .expand = expand,
    .flops = flops,
    .cases = {"f32[21,2] | nodes_treeids=[0,0,0] nodes_nodeids=[0,1,2] nodes_featureids=[1,0,0] nodes_values=[0.5,0,0] "
              "nodes_modes=[BRANCH_LEQ,LEAF,LEAF] nodes_truenodeids=[1,0,0] nodes_falsenodeids=[2,0,0] "
              "class_treeids=[0,0] class_nodeids=[1,2] class_ids=[0,0] class_weights=[0.9,0.2] "
              "classlabels_int64s=[4,7]",
              "f32[9,2] | nodes_treeids=[0,0,0] nodes_nodeids=[0,1,2] nodes_featureids=[1,0,0] nodes_values=[0.5,0,0] "
              "nodes_modes=[BRANCH_LT,LEAF,LEAF] nodes_truenodeids=[1,0,0] nodes_falsenodeids=[2,0,0] "
              "class_treeids=[0,0,0,0,0,0] class_nodeids=[1,1,1,2,2,2] class_ids=[0,1,2,0,1,2] "
              "class_weights=[0.9,0.2,0.1,0.3,0.4,0.6] classlabels_int64s=[4,7,8] post_transform=SOFTMAX",
              "f32[9,2] | nodes_treeids=[0,0,0] nodes_nodeids=[0,1,2] nodes_featureids=[1,0,0] nodes_values=[0.5,0,0] "
              "nodes_modes=[BRANCH_GTE,LEAF,LEAF] nodes_truenodeids=[1,0,0] nodes_falsenodeids=[2,0,0] "
              "class_treeids=[0,0] class_nodeids=[1,2] class_ids=[0,1] class_weights=[0.9,-0.2] "
              "classlabels_strings=[a,b] post_transform=LOGISTIC",
              "i64[9,2] | nodes_treeids=[0,0,0] nodes_nodeids=[0,1,2] nodes_featureids=[1,0,0] nodes_values=[50,0,0] "
              "nodes_modes=[BRANCH_LEQ,LEAF,LEAF] nodes_truenodeids=[1,0,0] nodes_falsenodeids=[2,0,0] "
              "class_treeids=[0,0] class_nodeids=[1,2] class_ids=[1,1] class_weights=[0.9,-0.2] "
              "classlabels_int64s=[4,7] post_transform=LOGISTIC base_values=[0.5]"},
};

}  // namespace kilter
