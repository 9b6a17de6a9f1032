#include "ops/support/ml.h"

#include <algorithm>
#include <cmath>

#include "ops/support/onnx_dtype.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

/// Scores nearer to 0 than this stay 0 in PostTransform::softmax_zero.
constexpr double kZeroScore = 1e-7;

// The approximation of the inverse error function by S. Winitzki, which the standard's operators use for PROBIT:
// erf_inv(x) = sign(x) sqrt(sqrt(v^2 - w) - v) with v = kA + log(1 - x^2) / 2 and w = log(1 - x^2) / kB. Near x = 0,
// where the difference cancels, it is computed as -w / (sqrt(v^2 - w) + v).
constexpr double kB = 0.147;
constexpr double kA = 2 / (3.14159 * kB);
constexpr double kRoot2 = 1.41421356;

bool applies(PostTransform how, int64_t scores) {
  return how == PostTransform::probit || (how != PostTransform::none && scores > 1);
}

double probit(double score) {
  const double x = 2 * score - 1;
  const double log = std::log((1 - x) * (1 + x));
  const double v = kA + log / 2;
  const double root = std::sqrt(std::sqrt(v * v - log / kB) - v);
  return kRoot2 * (x < 0 ? -root : root);
}

/// Divides by the sum. If all scores are 0, each becomes 0.5.
void normalise(std::span<double> scores, double sum) {
  for (double& score : scores) score = sum == 0 ? 0.5 : score / sum;
}

ValueId constant(ExpandContext& ctx, double value) { return ctx.scalar(DType::f32, value); }

ValueId softmax_zero(ExpandContext& ctx, ValueId scores) {
  const ValueId columns = ctx.builder.list(std::vector<int64_t>{1});
  const ValueId most = ctx.add("ReduceMax", {scores, columns});
  const ValueId zero = ctx.add("LessOrEqual", {ctx.add("Abs", {scores}), constant(ctx, kZeroScore)});
  const ValueId small = ctx.add("Mul", {scores, ctx.add("Exp", {ctx.add("Neg", {most})})});
  const ValueId parts = ctx.add("Where", {zero, small, ctx.add("Exp", {ctx.add("Sub", {scores, most})})});
  const ValueId sum = ctx.add("ReduceSum", {parts, columns});
  const ValueId none = ctx.add("Equal", {sum, constant(ctx, 0)});
  return ctx.add("Where", {none, constant(ctx, 0.5), ctx.add("Div", {parts, sum})});
}

ValueId probit(ExpandContext& ctx, ValueId scores) {
  const ValueId one = constant(ctx, 1);
  const ValueId x = ctx.add("Sub", {ctx.add("Mul", {scores, constant(ctx, 2)}), one});
  const ValueId log = ctx.add("Log", {ctx.add("Mul", {ctx.add("Sub", {one, x}), ctx.add("Add", {one, x})})});
  const ValueId v = ctx.add("Add", {ctx.add("Mul", {log, constant(ctx, 0.5)}), constant(ctx, kA)});
  const ValueId under = ctx.add("Sub", {ctx.add("Mul", {v, v}), ctx.add("Mul", {log, constant(ctx, 1 / kB)})});
  const ValueId outer = ctx.add("Sqrt", {under});
  const ValueId stable = ctx.add("Div", {ctx.add("Mul", {log, constant(ctx, -1 / kB)}), ctx.add("Add", {outer, v})});
  const ValueId positive = ctx.add("Greater", {v, constant(ctx, 0)});
  const ValueId root = ctx.add("Sqrt", {ctx.add("Where", {positive, stable, ctx.add("Sub", {outer, v})})});
  const ValueId sign =
      ctx.add("Where", {ctx.add("Less", {x, constant(ctx, 0)}), constant(ctx, -kRoot2), constant(ctx, kRoot2)});
  return ctx.add("Mul", {root, sign});
}

}  // namespace

FeatureRows feature_rows(const Node& node, const Shape& shape) {
  if (shape.size() == 1) return {1, shape[0]};
  if (shape.size() == 2) return {shape[0], shape[1]};
  node_error(node, fmt::format("input has shape {}, expected [rows, features] or [features]", text(shape)));
}

void check_features(const ExpandContext& ctx, size_t i) {
  static constexpr std::array<DType, 4> kLegal = {DType::f32, DType::f64, DType::i64, DType::i32};
  if (std::ranges::find(kLegal, ctx.type(i).dtype) == kLegal.end())
    illegal_dtype(ctx.node, i, ctx.type(i).dtype, kLegal);
}

ValueId features(ExpandContext& ctx, size_t i) {
  check_features(ctx, i);
  const FeatureRows rows = feature_rows(ctx.node, ctx.type(i).shape);
  const ValueId value = converted(ctx, ctx.in(i), DType::f32);
  if (ctx.type(i).shape.size() == 2) return value;
  return ctx.add("Reshape", {value, ctx.builder.list(std::vector<int64_t>{1, rows.columns})});
}

std::vector<ValueId> unexpanded(ExpandContext& ctx, size_t outputs) {
  GraphBuilder::Options options;
  options.name = ctx.node.name;
  options.domain = ctx.node.op->domain;
  options.opset = ctx.node.opset;
  options.output_count = outputs;
  options.expand = false;
  return ctx.builder.add(ctx.node.op->name, ctx.node.inputs, ctx.node.attrs, options);
}

Tensor LabelList::tensor() const {
  const Shape shape = {static_cast<int64_t>(size())};
  if (!of_strings()) return Tensor::of<int64_t>(shape, ints);
  Tensor result(DType::string, shape);
  result.strings() = strings;
  return result;
}

LabelList label_list(const Node& node, std::string_view ints, std::string_view strings) {
  LabelList list{node.ints_attr(ints), strings_attr(node, strings)};
  if (!list.ints.empty() && !list.strings.empty()) {
    node_error(node, fmt::format("attributes {} and {} are both set; expected one of them", ints, strings));
  }
  return list;
}

PostTransform post_transform_of(const Node& node) {
  const std::string how = node.string_attr("post_transform", "NONE");
  if (how == "NONE") return PostTransform::none;
  if (how == "SOFTMAX") return PostTransform::softmax;
  if (how == "LOGISTIC") return PostTransform::logistic;
  if (how == "SOFTMAX_ZERO") return PostTransform::softmax_zero;
  if (how == "PROBIT") return PostTransform::probit;
  node_error(node, fmt::format("attribute post_transform is '{}'; legal values are NONE, SOFTMAX, LOGISTIC, "
                               "SOFTMAX_ZERO and PROBIT",
                               how));
}

void transform_scores(PostTransform how, std::span<double> scores) {
  if (!applies(how, static_cast<int64_t>(scores.size()))) return;
  if (how == PostTransform::logistic || how == PostTransform::probit) {
    for (double& s : scores) s = how == PostTransform::logistic ? 1 / (1 + std::exp(-s)) : probit(s);
    return;
  }
  const double most = *std::ranges::max_element(scores);
  double sum = 0;
  for (double& s : scores) {
    const bool zero = how == PostTransform::softmax_zero && std::abs(s) <= kZeroScore;
    s = zero ? s * std::exp(-most) : std::exp(s - most);
    sum += s;
  }
  normalise(scores, sum);
}

ValueId transformed(ExpandContext& ctx, PostTransform how, ValueId scores) {
  if (!applies(how, ctx.builder.type(scores).shape.back())) return scores;
  switch (how) {
    case PostTransform::none:
      break;
    case PostTransform::softmax:
      return ctx.add("Softmax", {scores}, {{"axis", int64_t{1}}});
    case PostTransform::logistic:
      return ctx.add("Sigmoid", {scores});
    case PostTransform::softmax_zero:
      return softmax_zero(ctx, scores);
    case PostTransform::probit:
      return probit(ctx, scores);
  }
  return scores;
}

ValueId labels_at(ExpandContext& ctx, const LabelList& labels, ValueId classes) {
  return ctx.add("Gather", {ctx.builder.constant(labels.tensor(), "labels"), classes});
}

}  // namespace kilter
