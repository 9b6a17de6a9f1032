// LinearRegressor and LinearClassifier.
#include "ops/support/ml.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

/// Returns x w^T + intercepts [n, targets] for x (input 0) as rows.
ValueId products(ExpandContext& ctx, int64_t targets) {
  const ValueId x = features(ctx, 0);
  const int64_t columns = ctx.builder.type(x).shape[1];
  const std::vector<float> coefficients = ctx.node.floats_attr("coefficients");
  const std::vector<float> intercepts = ctx.node.floats_attr("intercepts");
  if (targets < 1) node_error(ctx.node, fmt::format("has {} targets, expected 1 or more", targets));
  check_count(ctx.node, fmt::format("coefficients, one for each of {} features of {} targets", columns, targets),
              static_cast<size_t>(checked_mul(ctx.node, columns, targets)), coefficients.size());
  const ValueId w = ctx.builder.constant(Tensor::of<float>({targets, columns}, coefficients), "coefficients");
  const ValueId y = ctx.add("MatMul", {x, ctx.add("Transpose", {w}, {{"perm", std::vector<int64_t>{1, 0}}})});
  if (intercepts.empty()) return y;
  check_count(ctx.node, "intercepts, one for each target", static_cast<size_t>(targets), intercepts.size());
  return ctx.add("Add", {y, ctx.builder.constant(Tensor::of<float>({targets}, intercepts), "intercepts")});
}

std::vector<ValueId> expand_regressor(ExpandContext& ctx) {
  const ValueId y = products(ctx, ctx.node.int_attr("targets", 1));
  return {transformed(ctx, post_transform_of(ctx.node), y)};
}

/// Returns the scores of both classes from that of the second one.
ValueId both_classes(ExpandContext& ctx, PostTransform how, ValueId score) {
  const auto join = [&](ValueId first, ValueId second) {
    return ctx.add("Concat", {first, second}, {{"axis", int64_t{1}}});
  };
  if (how == PostTransform::logistic) {
    return transformed(ctx, how, join(ctx.add("Neg", {score}), score));
  }
  const ValueId second = transformed(ctx, how, score);
  return join(ctx.add("Sub", {ctx.scalar(DType::f32, 1), second}), second);
}

std::vector<ValueId> expand_classifier(ExpandContext& ctx) {
  LabelList labels = label_list(ctx.node, "classlabels_ints", "classlabels_strings");
  const auto targets = static_cast<int64_t>(ctx.node.floats_attr("intercepts").size());
  if (targets == 0) node_error(ctx.node, "attribute intercepts is empty, expected one number for each class");
  const bool second = targets == 1 && labels.size() == 2;
  if (targets == 1 && labels.size() == 0) labels.ints = {0, 1};
  const size_t classes = targets == 1 ? 2 : static_cast<size_t>(targets);
  check_count(ctx.node, fmt::format("class labels for {} intercepts", targets), classes, labels.size());
  const PostTransform how = post_transform_of(ctx.node);
  const ValueId scores = products(ctx, targets);
  if (targets == 1) {
    const ValueId above = ctx.add("Greater", {scores, ctx.scalar(DType::f32, 0)});
    const ValueId column =
        ctx.add("Reshape", {above, ctx.builder.list(std::vector<int64_t>{ctx.builder.type(scores).shape[0]})});
    const ValueId y = labels_at(ctx, labels, converted(ctx, column, DType::i64));
    return {y, second ? both_classes(ctx, how, scores) : transformed(ctx, how, scores)};
  }
  const ValueId best = ctx.add("ArgMax", {scores}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}});
  return {labels_at(ctx, labels, best), transformed(ctx, how, scores)};
}

}  // namespace

KILTER_OP(LinearRegressor){
    .name = "LinearRegressor",
    .domain = kMlDomain,
    .attrs = {{"coefficients", "floats", "required"},
              {"intercepts", "floats", ""},
              {"post_transform", "string", "NONE"},
              {"targets", "int", "1"}},
    .summary = "y [n, targets] = post_transform(x coefficients^T + intercepts) for x [n, c] or [c].",
    .expand = expand_regressor,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[3,4] | coefficients=[1,2,-3,0.5] intercepts=[0.25]",
              "i64[5,2] | coefficients=[0.01,0.02,-0.03,0.04] intercepts=[1,-1] targets=2 post_transform=SOFTMAX",
              "f64[3] | coefficients=[1,2,3,-4,5,-6] targets=2 post_transform=LOGISTIC",
              "f32[2,2] | coefficients=[1,2,-1,0.5] targets=2 post_transform=SOFTMAX_ZERO",
              "f32[3,1]:0.1,0.5,0.9 | coefficients=[1] post_transform=PROBIT"},
};

KILTER_OP(LinearClassifier){
    .name = "LinearClassifier",
    .domain = kMlDomain,
    .min_outputs = 2,
    .max_outputs = 2,
    .attrs = {{"classlabels_ints", "ints", ""},
              {"classlabels_strings", "strings", ""},
              {"coefficients", "floats", "required"},
              {"intercepts", "floats", "required"},
              {"multi_class", "int", "0"},
              {"post_transform", "string", "NONE"}},
    .summary =
        "y [n] = the labels of the classes with the largest scores, z [n, classes] = post_transform(scores), with "
        "scores = x coefficients^T + intercepts for x [n, c] or [c]. One row of coefficients scores the second of two "
        "classes: y is that class where the score is positive.",
    .expand = expand_classifier,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[3,2] | coefficients=[1,2,-3,0.5] intercepts=[0.25,1] classlabels_ints=[4,7]",
              "f32[5,2] | coefficients=[1,-2] intercepts=[0.25] classlabels_ints=[4,7] post_transform=LOGISTIC",
              "f64[5,2] | coefficients=[1,-2] intercepts=[0.25] classlabels_strings=[no,yes]",
              "f32[5,2] | coefficients=[1,-2] intercepts=[0.25]",
              ("i64[2] | coefficients=[1,2,-3,0.5,1,1] intercepts=[0,0,1] classlabels_strings=[a,b,c] "
               "post_transform=SOFTMAX")},
};

}  // namespace kilter
