#include <cmath>

#include "ops/support/elementwise.h"
#include "ops/support/onnx_dtype.h"
#include "ops/support/reduction.h"

namespace kilter {
namespace {

constexpr double kEpsilon = 1e-9;  // from the operator's function body, added to the deviation

std::vector<int64_t> axes_of(const Node& node, int64_t rank) {
  std::vector<int64_t> axes = normal_axes(node, node.ints_attr("axes", {0, 2, 3}), rank);
  std::sort(axes.begin(), axes.end());
  return axes;
}

void infer(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  axes_of(ctx.node, ctx.rank(0));
  infer_same(ctx);
}

void reference(ReferenceContext& ctx) {
  const ReductionOffsets at = reduction_offsets(ctx.in(0).shape(), axes_of(ctx.node, ctx.in(0).rank()));
  const std::vector<double> x = load_doubles(ctx.in(0));
  std::vector<double> y(x.size());
  const auto count = static_cast<double>(at.steps.size());
  for (int64_t start : at.starts) {
    double sum = 0;
    for (int64_t step : at.steps) sum += x[static_cast<size_t>(start + step)];
    const double mean = sum / count;
    double squares = 0;
    for (int64_t step : at.steps) {
      const double d = x[static_cast<size_t>(start + step)] - mean;
      squares += d * d;
    }
    const double deviation = std::sqrt(squares / count);
    for (int64_t step : at.steps) {
      const auto i = static_cast<size_t>(start + step);
      y[i] = (x[i] - mean) / (deviation + kEpsilon);
    }
  }
  store_doubles(ctx.out(), y);
}

// f16 cannot represent the epsilon and has little range for sums, so f16 inputs are normalised in f32.
std::vector<ValueId> expand(ExpandContext& ctx) {
  const DType type = ctx.type(0).dtype;
  const bool narrow = type == DType::f16 || type == DType::bf16;
  const auto converted = [&](ValueId v, DType to) { return ctx.add("Cast", {v}, {{"to", code_of_dtype(to)}}); };
  const std::vector<int64_t> axes = axes_of(ctx.node, static_cast<int64_t>(ctx.type(0).shape.size()));
  const ValueId over = ctx.builder.list(axes);
  const ValueId x = narrow ? converted(ctx.in(0), DType::f32) : ctx.in(0);
  const ValueId centred = ctx.add("Sub", {x, ctx.add("ReduceMean", {x, over})});
  const ValueId variance = ctx.add("ReduceMean", {ctx.add("Mul", {centred, centred}), over});
  const ValueId epsilon = ctx.scalar(narrow ? DType::f32 : type, kEpsilon);
  const ValueId y = ctx.add("Div", {centred, ctx.add("Add", {ctx.add("Sqrt", {variance}), epsilon})});
  return {narrow ? converted(y, type) : y};
}

}  // namespace

KILTER_OP(MeanVarianceNormalization){
    .name = "MeanVarianceNormalization",
    .since = 9,
    .family = Family::reduce,
    .attrs = {{"axes", "ints", "[0,2,3]"}},
    .summary = "y = (x - mean) / (standard deviation + 1e-9) over `axes`.",
    .infer = infer,
    .reference = reference,
    .expand = expand,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[2,3,5,4]", "f32[2,17] | axes=[1]", "f32[7,3,2] | axes=[0,-1]", "f64[3,4] | axes=[0] | 9",
              "f16[2,3,4,4]"},
};

}  // namespace kilter
