#include "ops/support/softmax.h"

#include <cmath>
#include <limits>

#include "ops/support/elementwise.h"

namespace kilter {

SoftmaxDims softmax_dims(const Node& node, const Shape& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  const bool coerced = node.opset < 13;
  const int64_t axis = node.int_attr("axis", coerced ? 1 : -1);
  SoftmaxDims dims;
  if (coerced) {
    const int64_t first = normal_axis(node, axis, rank);
    dims.outer = product(shape, 0, static_cast<size_t>(first));
    dims.length = product(shape, static_cast<size_t>(first), shape.size());
    return dims;
  }
  const auto at = static_cast<size_t>(normal_axis(node, axis, rank));
  dims.outer = product(shape, 0, at);
  dims.length = shape[at];
  dims.inner = product(shape, at + 1, shape.size());
  return dims;
}

void infer_softmax(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  softmax_dims(ctx.node, ctx.shape(0));
  infer_same(ctx);
}

double row_max(const std::vector<double>& row) {
  double top = -std::numeric_limits<double>::infinity();
  for (double v : row) top = v > top || std::isnan(v) ? v : top;
  return top;
}

namespace {

void reference(ReferenceContext& ctx) {
  reference_softmax(ctx, [](std::vector<double>& row) {
    const double top = row_max(row);
    double total = 0;
    for (double& v : row) total += v = std::exp(v - top);
    for (double& v : row) v /= total;
  });
}

}  // namespace

KILTER_OP(Softmax){
    .name = "Softmax",
    .since = 13,
    .family = Family::softmax,
    .attrs = {{"axis", "int", "-1"}},
    .summary = "y = exp(x) / sum of exp(x) along axis.",
    .infer = infer_softmax,
    .reference = reference,
    .cases = {"f32[2,7,5]", "f32[3,17,4] | axis=1", "f32[33,2] | axis=0", "f32[1,1000]", "f64[2,9] | axis=-1",
              "f16[4,17]", "f32[3]:1000,-1000,999", "f32[70,33]", "f32[2,271,9]"},
};

KILTER_OP(Softmax_1){
    .name = "Softmax",
    .until = 12,
    .family = Family::softmax,
    .attrs = {{"axis", "int", "1"}},
    .summary = "y = exp(x) / sum of exp(x) over all dimensions from axis on together.",
    .infer = infer_softmax,
    .reference = reference,
    .cases = {"f32[2,3,5] | | 11", "f32[2,3,7] | axis=2 | 9", "f32[3,17] | axis=0 | 7", "f64[2,3,4] | axis=-1 | 11"},
};

}  // namespace kilter
