#include <algorithm>
#include <cmath>

#include "ops/support/elementwise.h"
#include "ops/support/quantized.h"

namespace kilter {
namespace {

enum Input : size_t { kX, kXScale, kXZero, kYScale, kYZero };

/// A tensor seen as [outer, length, inner], normalised along `length`. The form is that of Softmax at the opset which
/// attribute `opset` names: before opset 13, the dimensions from `axis` on count as one.
struct Rows {
  int64_t outer = 1;
  int64_t length = 1;
  int64_t inner = 1;
};
Rows rows_of(const Node& node, const Shape& shape) {
  const auto axis =
      static_cast<size_t>(normal_axis(node, node.int_attr("axis", -1), static_cast<int64_t>(shape.size())));
  if (node.int_attr("opset", 13) < 13) return {product(shape, 0, axis), product(shape, axis, shape.size()), 1};
  return {product(shape, 0, axis), shape[axis], product(shape, axis + 1, shape.size())};
}

void infer(InferContext& ctx) {
  check_quantized(ctx, kX);
  check_per_tensor(ctx, ctx.dtype(kX), kXScale, kXZero, "x");
  check_per_tensor(ctx, ctx.dtype(kX), kYScale, kYZero, "y");
  rows_of(ctx.node, ctx.shape(kX));
  ctx.set(0, ctx.dtype(kX), ctx.shape(kX));
}

void reference(ReferenceContext& ctx) {
  const Rows rows = rows_of(ctx.node, ctx.in(kX).shape());
  const std::vector<int64_t> x = ctx.in(kX).ints();
  const double x_scale = ctx.in(kXScale).as_double(0);
  const PerTensor y = per_tensor(ctx, kYScale, kYZero);
  std::vector<double> row(static_cast<size_t>(rows.length));
  for (int64_t r = 0; r < rows.outer * rows.inner; ++r) {
    const int64_t first = r / rows.inner * rows.length * rows.inner + r % rows.inner;
    for (size_t k = 0; k < row.size(); ++k)
      row[k] = x_scale * static_cast<double>(x[static_cast<size_t>(first + static_cast<int64_t>(k) * rows.inner)]);
    const double top = *std::max_element(row.begin(), row.end());
    double total = 0;
    for (double& v : row) total += v = std::exp(v - top);
    for (size_t k = 0; k < row.size(); ++k)
      store_quantized(ctx.out(), first + static_cast<int64_t>(k) * rows.inner, row[k] / total / y.scale, y.zero);
  }
}

}  // namespace

KILTER_OP(QLinearSoftmax){
    .name = "QLinearSoftmax",
    .domain = "com.microsoft",
    .min_inputs = 2,
    .max_inputs = 5,
    .attrs = {{"axis", "int", "-1"}, {"opset", "int", "required"}},
    .summary =
        "Softmax, in its form at the opset that the attribute names, of quantised x into quantised y, rounded once; "
        "inputs x, x_scale, x_zero_point, y_scale, y_zero_point, all of i8 or all of u8.",
    .infer = infer,
    .reference = reference,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"u8[2,7,5] f32[]=0.1 u8[]=50 f32[]=0.00390625 u8[]=0 | opset=13",
              "i8[3,17,4] f32[1]=0.05 i8[1]=5 f32[]=0.00390625 i8[]=-128 | axis=1 opset=17",
              "u8[2,3,4] f32[]=0.03 u8[]=0 f32[]=0.00390625 u8[]=0 | axis=1 opset=11",
              "u8[1,100] f32[]=1 u8[]=0 f32[]=0.00390625 u8[]=0 | opset=13"},
};

}  // namespace kilter
