#include "ops/support/elementwise.h"
#include "ops/support/integer_form.h"
#include "ops/support/operands.h"
#include "ops/support/quantized.h"

namespace kilter {
namespace {

enum Input : size_t { kYScale, kYZero, kFirst };
constexpr size_t kPerOperand = 3;  ///< inputs of one operand: its values, scale and zero point

int64_t axis_of(const Node& node, const Shape& shape) {
  return normal_axis(node, node.int_attr("axis", 0), static_cast<int64_t>(shape.size()));
}

void infer(InferContext& ctx) {
  if ((ctx.input_count() - kFirst) % kPerOperand != 0) {
    ctx.error(
        fmt::format("has {} inputs, expected y_scale, y_zero_point, and then a tensor, its scale and its zero "
                    "point for each operand",
                    ctx.input_count()));
  }
  check_quantized(ctx, kYZero);
  check_per_tensor(ctx, ctx.dtype(kYZero), kYScale, kYZero, "y");
  Shape shape = ctx.shape(kFirst);
  const auto axis = static_cast<size_t>(axis_of(ctx.node, shape));
  shape[axis] = 0;
  for (size_t i = kFirst; i < ctx.input_count(); i += kPerOperand) {
    check_quantized(ctx, i);
    check_per_tensor(ctx, ctx.dtype(i), i + 1, i + 2, fmt::format("operand {}: x", (i - kFirst) / kPerOperand));
    Shape other = ctx.shape(i);
    if (other.size() == shape.size()) other[axis] = shape[axis];
    if (other != shape) {
      ctx.error(fmt::format(
          "input {} of shape {} does not fit input {} of shape {}: all dimensions except axis {} must agree", i,
          text(ctx.shape(i)), size_t{kFirst}, text(ctx.shape(kFirst)), axis));
    }
    shape[axis] = checked_add(ctx.node, shape[axis], ctx.shape(i)[axis]);
  }
  ctx.set(0, ctx.dtype(kYZero), std::move(shape));
}

void reference(ReferenceContext& ctx) {
  const Shape& shape = ctx.out().shape();
  const PerTensor y = per_tensor(ctx, kYScale, kYZero);
  const auto axis = static_cast<size_t>(axis_of(ctx.node, shape));
  const int64_t outer = product(shape, 0, axis);
  const int64_t row = product(shape, axis, shape.size());
  int64_t start = 0;
  for (size_t i = kFirst; i < ctx.inputs.size(); i += kPerOperand) {
    const PerTensor x = per_tensor(ctx, i + 1, i + 2);
    const std::vector<int64_t> values = ctx.in(i).ints();
    const int64_t part = product(ctx.in(i).shape(), axis, shape.size());
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t k = 0; k < part; ++k) {
        const auto value = static_cast<double>(values[static_cast<size_t>(o * part + k)] - x.zero);
        store_quotient(ctx.out(), o * row + start + k, wide_product(value, x.scale), y.scale, y.zero);
      }
    }
    start += part;
  }
}

std::vector<ValueId> expand(ExpandContext& ctx) {
  const ValueId y = in_f64(ctx, ctx.in(kYScale));
  std::vector<ValueId> parts;
  for (size_t i = kFirst; i < ctx.node.inputs.size(); i += kPerOperand) {
    const ValueId factor = ctx.add("Div", {in_f64(ctx, ctx.in(i + 1)), y});
    parts.push_back(quantised(ctx, {integers(ctx, i, i + 2), factor}, kYZero, ctx.type(kYZero).dtype));
  }
  return {ctx.add("Concat", std::move(parts), {{"axis", ctx.node.int_attr("axis", 0)}})};
}

}  // namespace

KILTER_OP(QLinearConcat){
    .name = "QLinearConcat",
    .domain = "com.microsoft",
    .min_inputs = 5,
    .max_inputs = -1,
    .attrs = {{"axis", "int", "required"}},
    .summary =
        "Concat along axis of quantised operands, each with its own scale and zero point, into quantised y, rounded "
        "once, ties to even; inputs y_scale, y_zero_point, then x, x_scale, x_zero_point for each operand.",
    .infer = infer,
    .reference = reference,
    .expand = expand,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[]=0.1 u8[]=20 u8[1,6,7] f32[]=0.1 u8[]=20 u8[1,5,7] f32[]=0.3 u8[]=3 | axis=1",
              "f32[1]=0.5 i8[1]=-20 i8[2,3] f32[1]=0.25 i8[]=2 i8[2,5] f32[]=0.7 i8[]=3 i8[2,0] f32[] i8[] | axis=-1",
              "f32[] u8[] i8[4] f32[] i8[] u8[3] f32[] u8[] | axis=0"},
};

}  // namespace kilter
