#include "ops/support/elementwise.h"
#include "ops/support/integer_form.h"
#include "ops/support/quantized.h"

namespace kilter {
namespace {

enum Input : size_t { kCondition, kX, kXScale, kXZero, kY, kYScale, kYZero, kZScale, kZZero };

void infer(InferContext& ctx) {
  check_types(Bool{}, ctx, kCondition);
  check_quantized(ctx, kX);
  if (ctx.dtype(kY) != ctx.dtype(kX)) {
    ctx.error(fmt::format("input {} has element type {}, expected {} to match input {}", size_t{kY},
                          name(ctx.dtype(kY)), name(ctx.dtype(kX)), size_t{kX}));
  }
  check_per_tensor(ctx, ctx.dtype(kX), kXScale, kXZero, "x");
  check_per_tensor(ctx, ctx.dtype(kX), kYScale, kYZero, "y");
  check_per_tensor(ctx, ctx.dtype(kX), kZScale, kZZero, "z");
  const std::vector<Shape> shapes = {ctx.shape(kCondition), ctx.shape(kX), ctx.shape(kY)};
  const auto shape = broadcast_shapes(shapes);
  if (!shape) {
    ctx.error(fmt::format("condition, x and y of shapes {}, {} and {} do not broadcast", text(shapes[0]),
                          text(shapes[1]), text(shapes[2])));
  }
  ctx.set(0, ctx.dtype(kX), *shape);
}

void reference(ReferenceContext& ctx) {
  const PerTensor x = per_tensor(ctx, kXScale, kXZero);
  const PerTensor y = per_tensor(ctx, kYScale, kYZero);
  const PerTensor z = per_tensor(ctx, kZScale, kZZero);
  const Shape& shape = ctx.out().shape();
  const bool* condition = ctx.in(kCondition).data<bool>();
  int64_t i = 0;
  for_each_offset<3>(shape,
                     {broadcast_strides(ctx.in(kCondition).shape(), shape),
                      broadcast_strides(ctx.in(kX).shape(), shape), broadcast_strides(ctx.in(kY).shape(), shape)},
                     [&](const std::array<int64_t, 3>& at) {
                       const bool first = condition[at[0]];
                       const int64_t q = first ? ctx.in(kX).as_int(at[1]) : ctx.in(kY).as_int(at[2]);
                       const PerTensor from = first ? x : y;
                       const Wide real = wide_product(static_cast<double>(q - from.zero), from.scale);
                       store_quotient(ctx.out(), i++, real, z.scale, z.zero);
                     });
}

std::vector<ValueId> expand(ExpandContext& ctx) {
  const auto requantized = [&](size_t values, size_t scale, size_t zero) {
    const ValueId factor = ctx.add("Div", {in_f64(ctx, ctx.in(scale)), in_f64(ctx, ctx.in(kZScale))});
    return quantised(ctx, {integers(ctx, values, zero), factor}, kZZero, ctx.type(kX).dtype);
  };
  return {ctx.add("Where", {ctx.in(kCondition), requantized(kX, kXScale, kXZero), requantized(kY, kYScale, kYZero)})};
}

}  // namespace

KILTER_OP(QLinearWhere){
    .name = "QLinearWhere",
    .domain = "com.microsoft",
    .min_inputs = 9,
    .max_inputs = 9,
    .summary =
        "Where of quantised x and y into quantised z, broadcast, rounded once, ties to even; inputs condition, x, "
        "x_scale, x_zero_point, y, y_scale, y_zero_point, z_scale, z_zero_point, all of i8 or all of u8.",
    .infer = infer,
    .reference = reference,
    .expand = expand,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"bool[2,3,5] u8[2,3,5] f32[]=0.02 u8[]=50 u8[2,3,5] f32[]=0.01 u8[]=3 f32[]=0.03 u8[]=12",
              "bool[3,1] i8[17] f32[1]=0.5 i8[1]=10 i8[] f32[1]=0.25 i8[]=-3 f32[]=0.5 i8[1]=-12"},
};

}  // namespace kilter
