// Shared by operators of the domain ai.onnx.ml: rows of features, class labels, and transforms of scores.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/support/builder.h"
#include "ops/support/cast_values.h"
#include "ops/support/elementwise.h"
#include "ops/support/strings.h"

namespace kilter {

constexpr std::string_view kMlDomain = "ai.onnx.ml";
/// The element types of features.
using FeatureTypes = Types<float, double, int64_t, int32_t>;

/// Rows of features: operands have shape [count, columns], or [columns] for one row.
struct FeatureRows {
  int64_t count = 1;
  int64_t columns = 0;
};
/// Throws node_error unless the shape has one or two dimensions.
FeatureRows feature_rows(const Node& node, const Shape& shape);
/// Throws node_error unless the element type is one of FeatureTypes.
void check_features(const ExpandContext& ctx, size_t i);
/// Returns input i as f32 [count, columns].
ValueId features(ExpandContext& ctx, size_t i);

/// Adds the node that is to be replaced, unexpanded, and returns its outputs.
std::vector<ValueId> unexpanded(ExpandContext& ctx, size_t outputs);

/// A list of numbers or of strings: class labels, the keys or the values of a table.
struct LabelList {
  std::vector<int64_t> ints;
  std::vector<std::string> strings;

  bool of_strings() const { return !strings.empty(); }
  size_t size() const { return of_strings() ? strings.size() : ints.size(); }
  DType dtype() const { return of_strings() ? DType::string : DType::i64; }
  Tensor tensor() const;
};
/// Reads two attributes of which a node has at most one.
LabelList label_list(const Node& node, std::string_view ints, std::string_view strings);

/// The function that a model applies to the scores of a row.
enum class PostTransform { none, softmax, logistic, softmax_zero, probit };
/// Reads attribute post_transform, the name of a transform.
PostTransform post_transform_of(const Node& node);
/// Applies a transform to the scores of one row. A single score remains as it is, except with PostTransform::probit.
void transform_scores(PostTransform how, std::span<double> scores);
/// The same for scores f32 [n, classes].
ValueId transformed(ExpandContext& ctx, PostTransform how, ValueId scores);

/// Returns the labels [n] of rows whose class has index `classes` (i64 [n]).
ValueId labels_at(ExpandContext& ctx, const LabelList& labels, ValueId classes);

}  // namespace kilter
