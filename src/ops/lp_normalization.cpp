#include <cmath>

#include "ops/support/elementwise.h"
#include "ops/support/onnx_dtype.h"

namespace kilter {
namespace {

int64_t order_of(const Node& node) {
  const int64_t p = node.int_attr("p", 2);
  if (p != 1 && p != 2) node_error(node, fmt::format("attribute p is {}; legal values are 1 and 2", p));
  return p;
}

void infer(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  order_of(ctx.node);
  normal_axis(ctx.node, ctx.node.int_attr("axis", -1), ctx.rank(0));
  infer_same(ctx);
}

void reference(ReferenceContext& ctx) {
  const Shape& shape = ctx.in(0).shape();
  const auto axis = static_cast<size_t>(normal_axis(ctx.node, ctx.node.int_attr("axis", -1), ctx.in(0).rank()));
  const bool squares = order_of(ctx.node) == 2;
  const int64_t inner = product(shape, axis + 1, shape.size());
  const int64_t outer = product(shape, 0, axis);
  const std::vector<double> x = load_doubles(ctx.in(0));
  std::vector<double> y(x.size());
  for (int64_t row = 0; row < outer * inner; ++row) {
    const int64_t start = row / inner * shape[axis] * inner + row % inner;
    double sum = 0;
    for (int64_t k = 0; k < shape[axis]; ++k) {
      const double v = x[static_cast<size_t>(start + k * inner)];
      sum += squares ? v * v : std::abs(v);
    }
    const double norm = squares ? std::sqrt(sum) : sum;
    for (int64_t k = 0; k < shape[axis]; ++k) {
      const auto i = static_cast<size_t>(start + k * inner);
      y[i] = norm == 0 ? 0 : x[i] / norm;
    }
  }
  store_doubles(ctx.out(), y);
}

// If every element is 0, the norm is 0 too; dividing by 1 instead keeps the elements 0. Sums of f16 and bf16 elements
// need f32.
std::vector<ValueId> expand(ExpandContext& ctx) {
  const DType type = ctx.type(0).dtype;
  const bool narrow = type == DType::f16 || type == DType::bf16;
  const DType wide = narrow ? DType::f32 : type;
  const auto converted = [&](ValueId v, DType to) { return ctx.add("Cast", {v}, {{"to", code_of_dtype(to)}}); };
  const ValueId x = narrow ? converted(ctx.in(0), wide) : ctx.in(0);
  const ValueId axes = ctx.builder.constant(Tensor::of<int64_t>({1}, {ctx.node.int_attr("axis", -1)}));
  const ValueId norm = ctx.add(order_of(ctx.node) == 2 ? "ReduceL2" : "ReduceL1", {x, axes});
  const ValueId is_zero = ctx.add("Equal", {norm, ctx.scalar(wide, 0)});
  const ValueId y = ctx.add("Div", {x, ctx.add("Where", {is_zero, ctx.scalar(wide, 1), norm})});
  return {narrow ? converted(y, type) : y};
}

}  // namespace

KILTER_OP(LpNormalization){
    .name = "LpNormalization",
    .family = Family::reduce,
    .attrs = {{"axis", "int", "-1"}, {"p", "int", "2"}},
    .summary = "y = x / norm of order p (1 or 2) along `axis`; 0 where the norm is 0.",
    .infer = infer,
    .reference = reference,
    .expand = expand,
    .tolerance = {.rtol = 1e-5, .atol = 1e-6},
    .cases = {"f32[2,3,5]", "f32[2,17] | p=1", "f32[7,3] | axis=0", "f32[2,3]:0,0,0,1,2,3", "f64[3,4] | axis=-2 p=1",
              "f16[2,9] | | 7"},
};

}  // namespace kilter
