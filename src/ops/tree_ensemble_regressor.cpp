// TreeEnsembleRegressor and TreeEnsemble.
#include "ops/support/operands.h"
#include "ops/support/tree_sums.h"

namespace kilter {
namespace {

constexpr int64_t kMostTargets = int64_t{1} << 20;

int64_t targets_of(const Node& node) {
  const int64_t targets = node.int_attr("n_targets", 1);
  if (targets >= 1 && targets <= kMostTargets) return targets;
  node_error(node, fmt::format("attribute n_targets is {}; legal values are 1 to {}", targets, kMostTargets));
}

TreeAggregate aggregate_of(const Node& node) {
  const std::string how = node.string_attr("aggregate_function", "SUM");
  if (how == "SUM") return TreeAggregate::sum;
  if (how == "AVERAGE") return TreeAggregate::average;
  if (how == "MIN") return TreeAggregate::min;
  if (how == "MAX") return TreeAggregate::max;
  node_error(node,
             fmt::format("attribute aggregate_function is '{}'; legal values are SUM, AVERAGE, MIN and MAX", how));
}

TreeEnsemble read_regressor(const Node& node, int64_t columns) {
  TreeEnsemble trees = read_listed_trees(node, "target");
  trees.targets = targets_of(node);
  trees.aggregate = aggregate_of(node);
  trees.how = post_transform_of(node);
  check_ranges(node, trees, columns);
  if (!trees.base_values.empty()) {
    check_count(node, "numbers in attribute base_values, one for each target", static_cast<size_t>(trees.targets),
                trees.base_values.size());
  }
  return trees;
}

/// Reads an attribute that is the number of one of `count` choices.
int64_t choice(const Node& node, std::string_view key, int64_t fallback, int64_t count) {
  const int64_t number = node.int_attr(key, fallback);
  if (number >= 0 && number < count) return number;
  node_error(node, fmt::format("attribute {} is {}; legal values are 0 to {}", key, number, count - 1));
}

TreeEnsemble read_ensemble(const Node& node, int64_t columns) {
  TreeEnsemble trees = read_linked_trees(node);
  trees.targets = targets_of(node);
  trees.aggregate = static_cast<TreeAggregate>(choice(node, "aggregate_function", 1, 4));
  trees.how = static_cast<PostTransform>(choice(node, "post_transform", 0, 5));
  check_ranges(node, trees, columns);
  return trees;
}

using Reader = TreeEnsemble (*)(const Node&, int64_t columns);

template <Reader read>
void evaluate(ReferenceContext& ctx) {
  const FeatureRows rows = feature_rows(ctx.node, ctx.in(0).shape());
  const TreeEnsemble trees = read(ctx.node, rows.columns);
  std::vector<double> row(static_cast<size_t>(rows.columns)), scores(static_cast<size_t>(trees.targets)), all;
  std::vector<TreeScore> sums(scores.size());
  for (int64_t i = 0; i < rows.count; ++i) {
    load_row(ctx.in(0), i, row);
    evaluate_row(trees, row, sums);
    for (size_t k = 0; k < scores.size(); ++k) {
      scores[k] = sums[k].value + (trees.base_values.empty() ? 0 : trees.base_values[k]);
    }
    transform_scores(trees.how, scores);
    all.insert(all.end(), scores.begin(), scores.end());
  }
  store_doubles(ctx.out(), all);
}

void infer_regressor(InferContext& ctx) {
  check_types(FeatureTypes{}, ctx, 0);
  const FeatureRows rows = feature_rows(ctx.node, ctx.shape(0));
  ctx.set(0, DType::f32, {rows.count, read_regressor(ctx.node, rows.columns).targets});
}

void infer_ensemble(InferContext& ctx) {
  check_types(Types<float, double, Half>{}, ctx, 0);
  const FeatureRows rows = feature_rows(ctx.node, ctx.shape(0));
  ctx.set(0, ctx.dtype(0), {rows.count, read_ensemble(ctx.node, rows.columns).targets});
}

std::vector<ValueId> expand_regressor(ExpandContext& ctx) {
  const FeatureRows rows = feature_rows(ctx.node, ctx.type(0).shape);
  const TreeEnsemble trees = read_regressor(ctx.node, rows.columns);
  const std::optional<ValueId> scores = tree_scores(ctx, trees, tree_features(ctx));
  if (!scores) return unexpanded(ctx, 1);
  return {transformed(ctx, trees.how, converted(ctx, *scores, DType::f32))};
}

// Transforms compute in f32, so a forest of f64 with one stays.
std::vector<ValueId> expand_ensemble(ExpandContext& ctx) {
  const DType type = ctx.type(0).dtype;
  const FeatureRows rows = feature_rows(ctx.node, ctx.type(0).shape);
  const TreeEnsemble trees = read_ensemble(ctx.node, rows.columns);
  if (type == DType::f64 && trees.how != PostTransform::none) return unexpanded(ctx, 1);
  const std::optional<ValueId> scores = tree_scores(ctx, trees, tree_features(ctx));
  if (!scores) return unexpanded(ctx, 1);
  return {converted(ctx, transformed(ctx, trees.how, *scores), type)};
}

int64_t flops(const OpView& view) {
  const FeatureRows rows = feature_rows(view.node, view.inputs[0].shape);
  return rows.count * static_cast<int64_t>(view.node.ints_attr("nodes_featureids").size());
}

}  // namespace

KILTER_OP(TreeEnsembleRegressor){
    .name = "TreeEnsembleRegressor",
    .domain = kMlDomain,
    .attrs = {{"aggregate_function", "string", "SUM"},
              {"base_values", "floats", ""},
              {"base_values_as_tensor", "tensor", ""},
              {"n_targets", "int", "1"},
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
              {"post_transform", "string", "NONE"},
              {"target_ids", "ints", "required"},
              {"target_nodeids", "ints", "required"},
              {"target_treeids", "ints", "required"},
              {"target_weights", "floats", ""},
              {"target_weights_as_tensor", "tensor", ""}},
    .summary =
        "y [n, n_targets] = post_transform(the sum, average, minimum or maximum of the leaves that x [n, c] or [c] "
        "reaches, plus base_values), f32.",
    .infer = infer_regressor,
    .reference = evaluate<read_regressor>,
    .expand = expand_regressor,
    .flops = flops,
    .cases = {"f32[21,2] | nodes_treeids=[0,0,0] nodes_nodeids=[0,1,2] nodes_featureids=[1,0,0] nodes_values=[0.5,0,0] "
              "nodes_modes=[BRANCH_LEQ,LEAF,LEAF] nodes_truenodeids=[1,0,0] nodes_falsenodeids=[2,0,0] "
              "target_treeids=[0,0] target_nodeids=[1,2] target_ids=[0,0] target_weights=[1.5,-2] base_values=[0.25]",
              "f64[9,2] | nodes_treeids=[0,0,0,1] nodes_nodeids=[0,1,2,0] nodes_featureids=[1,0,0,0] "
              "nodes_values=[0.5,0,0,0] nodes_modes=[BRANCH_GT,LEAF,LEAF,LEAF] nodes_truenodeids=[1,0,0,0] "
              "nodes_falsenodeids=[2,0,0,0] target_treeids=[0,0,1,0] target_nodeids=[1,2,0,1] target_ids=[0,1,1,1] "
              "target_weights=[1.5,-2,1,0.5] n_targets=2 aggregate_function=AVERAGE post_transform=SOFTMAX",
              "f32[3]:nan,1,2 | nodes_treeids=[0,0,0] nodes_nodeids=[5,6,9] nodes_featureids=[0,0,0] "
              "nodes_values=[1,0,0] nodes_modes=[BRANCH_NEQ,LEAF,LEAF] nodes_truenodeids=[9,0,0] "
              "nodes_falsenodeids=[6,0,0] target_treeids=[0,0] target_nodeids=[6,9] target_ids=[0,0] "
              "target_weights=[1,2] aggregate_function=MIN base_values=[0.5]"},
};

KILTER_OP(TreeEnsemble){
    .name = "TreeEnsemble",
    .domain = kMlDomain,
    .since = 5,
    .attrs = {{"aggregate_function", "int", "1"},
              {"leaf_targetids", "ints", "required"},
              {"leaf_weights", "tensor", "required"},
              {"membership_values", "tensor", ""},
              {"n_targets", "int", "1"},
              {"nodes_falseleafs", "ints", "required"},
              {"nodes_falsenodeids", "ints", "required"},
              {"nodes_featureids", "ints", "required"},
              {"nodes_hitrates", "tensor", ""},
              {"nodes_missing_value_tracks_true", "ints", ""},
              {"nodes_modes", "tensor", "required"},
              {"nodes_splits", "tensor", "required"},
              {"nodes_trueleafs", "ints", "required"},
              {"nodes_truenodeids", "ints", "required"},
              {"post_transform", "int", "0"},
              {"tree_roots", "ints", "required"}},
    .summary =
        "y [n, n_targets] = post_transform(the average, sum, minimum or maximum of the leaves that x [n, c] or [c] "
        "reaches) in the type of x; a condition may be whether a feature is in a set.",
    .infer = infer_ensemble,
    .reference = evaluate<read_ensemble>,
    .expand = expand_ensemble,
    .flops = flops,
    .tolerance = {.rtol = 1e-3, .atol = 1e-3},  // of f16
    .cases = {"f32[21,2]:1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,nan,1,2,3,4,5,6 | "
              "nodes_featureids=[0,1] nodes_modes=u8[2]=6,0 nodes_splits=f32[2]=0,4.5 nodes_truenodeids=[0,1] "
              "nodes_trueleafs=[1,1] nodes_falsenodeids=[1,2] nodes_falseleafs=[0,1] tree_roots=[0] "
              "leaf_targetids=[0,0,0] leaf_weights=f32[3]=1,2,3 membership_values=f32[4]=3,7,1,nan",
              "f64[3,1] | nodes_featureids=[0] nodes_modes=u8[1]=1 nodes_splits=f64[1]=0.1 nodes_truenodeids=[0] "
              "nodes_trueleafs=[1] nodes_falsenodeids=[1] nodes_falseleafs=[1] tree_roots=[0] leaf_targetids=[0,1] "
              "leaf_weights=f64[2]=0.1,0.2 n_targets=2 post_transform=1",
              "f16[5,2] | nodes_featureids=[0] nodes_modes=u8[1]=3 nodes_splits=f16[1]=0.5 nodes_truenodeids=[0] "
              "nodes_trueleafs=[1] nodes_falsenodeids=[1] nodes_falseleafs=[1] tree_roots=[0,0] leaf_targetids=[0,0] "
              "leaf_weights=f16[2]=0.5,2 aggregate_function=0"},
};

}  // namespace kilter
