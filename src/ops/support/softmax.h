// The normalised axis of Softmax, LogSoftmax and Hardmax in every opset.
#pragma once

#include <vector>

#include "ops/support/iterate.h"
#include "ops/support/operands.h"

namespace kilter {

/// A tensor seen as [outer, length, inner], normalised along `length`.
struct SoftmaxDims {
  int64_t outer = 1;
  int64_t length = 1;
  int64_t inner = 1;
};

/// Returns how a node normalises its input. Since opset 13, `axis` (default -1) is the normalised dimension. Before,
/// the dimensions from `axis` (default 1) on count as one (inner == 1). Throws node_error if the axis is out of range.
SoftmaxDims softmax_dims(const Node& node, const Shape& shape);

/// Output 0 is like input 0, a float tensor. Checks the axis.
void infer_softmax(InferContext& ctx);

/// Calls f(row) for every normalised row, with its elements as double, and stores the values that f leaves in the row.
template <class F>
void reference_softmax(ReferenceContext& ctx, F f) {
  const SoftmaxDims dims = softmax_dims(ctx.node, ctx.in(0).shape());
  std::vector<double> values = load_doubles(ctx.in(0));
  if (values.empty()) return;
  std::vector<double> row(static_cast<size_t>(dims.length));
  for (int64_t o = 0; o < dims.outer; ++o) {
    for (int64_t i = 0; i < dims.inner; ++i) {
      double* first = values.data() + o * dims.length * dims.inner + i;
      for (size_t k = 0; k < row.size(); ++k) row[k] = first[static_cast<int64_t>(k) * dims.inner];
      f(row);
      for (size_t k = 0; k < row.size(); ++k) first[static_cast<int64_t>(k) * dims.inner] = row[k];
    }
  }
  store_doubles(ctx.out(), values);
}

/// Returns the greatest element of a non-empty row, or NaN if the row contains one.
double row_max(const std::vector<double>& row);

}  // namespace kilter
