#include <cmath>
#include <functional>

#include "ops/support/elementwise.h"
#include "ops/support/regions.h"
#include "ops/support/resize_coords.h"

namespace kilter {
namespace {

using Interpolated = Types<float, double, Half, BFloat16, int8_t, int16_t, int32_t, uint8_t, uint16_t, uint32_t>;

/// Positions of the control operands: opset 10 and Upsample have (x, scales), newer ones (x, roi, scales, sizes).
struct Positions {
  size_t roi, scales, sizes;
};
Positions positions(const Node& node) {
  return node.opset < 11 ? Positions{SIZE_MAX, 1, SIZE_MAX} : Positions{1, 2, 3};
}

/// The plan for an input of shape `x`. `operand` returns the operand at a position, null if there is none.
ResizePlan plan_of(const Node& node, const Shape& x, const std::function<const Tensor*(size_t)>& operand) {
  const Positions at = positions(node);
  return resize_plan(node, x, {operand(at.roi), operand(at.scales), operand(at.sizes)});
}

ResizePlan resize(const OpView& view) {
  return plan_of(view.node, view.inputs[0].shape,
                 [&](size_t i) { return i < view.values.size() ? view.values[i] : nullptr; });
}

void infer(InferContext& ctx) {
  const Positions at = positions(ctx.node);
  ResizeOperands operands;
  // An operand with 0 elements counts as omitted, whether or not its value is known.
  const auto given = [&](size_t i) { return ctx.has(i) && elems(ctx.shape(i)) > 0; };
  if (given(at.scales)) operands.scales = &ctx.needed(at.scales);
  if (given(at.sizes)) operands.sizes = &ctx.needed(at.sizes);
  if (given(at.roi)) operands.roi = ctx.value(at.roi);
  const Shape out = resize_shape(ctx.node, ctx.shape(0), operands);
  if (!resize_is_nearest(ctx.node)) check_types(Interpolated{}, ctx, 0);
  ctx.set(0, ctx.dtype(0), out);
}

/// Resamples one axis of dense data [outer, axis.in, inner].
std::vector<double> resample(const std::vector<double>& x, const ResizeAxis& axis, int64_t outer, int64_t inner,
                             double extrapolation) {
  std::vector<double> y(static_cast<size_t>(outer * axis.out * inner), 0.0);
  for (int64_t n = 0; n < outer; ++n) {
    for (int64_t o = 0; o < axis.out; ++o) {
      double* to = y.data() + (n * axis.out + o) * inner;
      if (!axis.outside.empty() && axis.outside[static_cast<size_t>(o)] != 0) {
        std::fill(to, to + inner, extrapolation);
        continue;
      }
      for (int64_t t = o * axis.taps; t < (o + 1) * axis.taps; ++t) {
        const double weight = axis.weight[static_cast<size_t>(t)];
        const double* from = x.data() + (n * axis.in + axis.index[static_cast<size_t>(t)]) * inner;
        for (int64_t i = 0; i < inner; ++i) to[i] += weight * from[i];
      }
    }
  }
  return y;
}

void copy_nearest(ReferenceContext& ctx, const ResizePlan& plan) {
  std::vector<IndexMap> maps;
  for (const ResizeAxis& axis : plan.axes) {
    IndexMap map = axis.index;
    for (size_t o = 0; o < axis.outside.size(); ++o) {
      if (axis.outside[o] != 0) map[o] = kFill;
    }
    maps.push_back(std::move(map));
  }
  Tensor edge;
  if (ctx.in(0).dtype() != DType::string) {
    edge = Tensor(ctx.in(0).dtype(), {});
    fill(edge, plan.extrapolation);
  }
  copy_mapped(ctx.in(0), ctx.out(), maps, edge);
}

void reference(ReferenceContext& ctx) {
  const ResizePlan plan =
      plan_of(ctx.node, ctx.in(0).shape(), [&](size_t i) { return ctx.has(i) ? &ctx.in(i) : nullptr; });
  if (plan.nearest) {
    copy_nearest(ctx, plan);
    return;
  }
  std::vector<double> data = load_doubles(ctx.in(0));
  int64_t outer = 1;
  for (size_t d = 0; d < plan.axes.size(); ++d) {
    const ResizeAxis& axis = plan.axes[d];
    const Shape& shape = ctx.in(0).shape();
    if (!axis.identity()) data = resample(data, axis, outer, product(shape, d + 1, shape.size()), plan.extrapolation);
    outer *= axis.out;
  }
  if (is_integer(ctx.out().dtype())) {
    for (double& value : data) value = std::nearbyint(value);
  }
  store_doubles(ctx.out(), data);
}

}  // namespace

KILTER_OP(Resize){
    .name = "Resize",
    .since = 10,
    .family = Family::resize,
    .max_inputs = 4,
    .attrs = {{"antialias", "int", "0"},
              {"axes", "ints", ""},
              {"coordinate_transformation_mode", "string", "half_pixel"},
              {"cubic_coeff_a", "float", "-0.75"},
              {"exclude_outside", "int", "0"},
              {"extrapolation_value", "float", "0"},
              {"keep_aspect_ratio_policy", "string", "stretch"},
              {"mode", "string", "nearest"},
              {"nearest_mode", "string", "round_prefer_floor"}},
    .summary =
        "x resampled along its axes by scales or to sizes: nearest, linear or cubic. Interpolated integers round to "
        "nearest even and saturate.",
    .infer = infer,
    .reference = reference,
    .resize = resize,
    .shape_operands = {1, 2, 3},
    // Weights are rounded to float; cubic sums add 16 terms of both signs.
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[1,3,7,9] ? f32[4]=1,1,2,2 | coordinate_transformation_mode=asymmetric nearest_mode=floor",
              "f32[1,17,5,6] ? ? i64[4]=1,17,11,13 | mode=linear",
              "f32[2,3,9,8] ? f32[4]=1,1,0.5,1.5 | mode=linear coordinate_transformation_mode=align_corners",
              "f32[1,7,6,5] ? ? i64[4]=1,7,10,9 | mode=cubic coordinate_transformation_mode=pytorch_half_pixel",
              "f32[1,3,8,8] ? ? i64[2]=5,3 | axes=[2,3] mode=linear antialias=1",
              ("f32[1,3,8,8] f32[8]=0,0,0.2,-0.1,1,1,0.8,1.2 ? i64[4]=1,3,5,6 | mode=linear "
               "coordinate_transformation_mode=tf_crop_and_resize extrapolation_value=7"),
              "f32[1,3,5,7] f32[4]=1,1,2,3 | mode=nearest | 10",
              "f32[1,2,3,4,5] ? f32[3]=2,2,2 | axes=[2,3,4] mode=linear"},
};

KILTER_OP(Upsample){
    .name = "Upsample",
    .since = 7,
    .until = 9,
    .family = Family::resize,
    .max_inputs = 2,
    .attrs = {{"mode", "string", "nearest"}, {"scales", "floats", ""}},
    .summary = "x resampled by scales from the corner: output index / scale, nearest (floor) or linear.",
    .infer = infer,
    .reference = reference,
    .resize = resize,
    .shape_operands = {1},
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[1,3,7,9] | scales=[1,1,2,2] | 7", "f32[1,17,5,6] f32[4]=1,1,2,2 | mode=linear | 9",
              "f32[2,3,4,5] f32[4]=1,1,1.5,3 | | 9"},
};

}  // namespace kilter
