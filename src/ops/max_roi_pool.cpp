#include <algorithm>
#include <cmath>

#include "base/convert.h"
#include "ops/support/elementwise.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

std::vector<int64_t> pooled_of(const Node& node) {
  const std::vector<int64_t> pooled = node.ints_attr("pooled_shape");
  check_count(node, "entries of pooled_shape", 2, pooled.size());
  check_shape(node, pooled);
  return pooled;
}

void infer(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  check_same_dtype(ctx);
  const Shape& rois = ctx.shape(1);
  if (ctx.rank(0) != 4 || rois.size() != 2 || rois[1] != 5) {
    ctx.error(fmt::format("inputs have shapes {} and {}, expected [N, C, H, W] and [rois, 5]", text(ctx.shape(0)),
                          text(rois)));
  }
  const std::vector<int64_t> pooled = pooled_of(ctx.node);
  ctx.set(0, ctx.dtype(0), {rois[0], ctx.shape(0)[1], pooled[0], pooled[1]});
}

/// The rows or columns of bin `bin`: from the floor to the ceiling of its share of the region, clipped to the image.
struct Bin {
  int64_t begin, end;
};
Bin bin_of(double low, double high, double scale, int64_t bins, int64_t bin, int64_t extent) {
  const double start = std::round(low * scale);
  const double size = std::max(std::round(high * scale) - start + 1, 1.0) / static_cast<double>(bins);
  const auto cut = [&](double at) { return std::clamp<int64_t>(saturate<int64_t>(at + start), 0, extent); };
  return {cut(std::floor(static_cast<double>(bin) * size)), cut(std::ceil(static_cast<double>(bin + 1) * size))};
}

void reference(ReferenceContext& ctx) {
  const Shape& shape = ctx.in(0).shape();
  const std::vector<double> x = load_doubles(ctx.in(0));
  const std::vector<double> rois = load_doubles(ctx.in(1));
  const std::vector<int64_t> pooled = pooled_of(ctx.node);
  const double scale = ctx.node.float_attr("spatial_scale", 1);
  std::vector<double> y;
  for (int64_t r = 0; r < ctx.in(1).shape()[0]; ++r) {
    const double* roi = rois.data() + 5 * r;
    const bool legal = roi[0] >= 0 && roi[0] < static_cast<double>(shape[0]);
    for (int i = 1; i < 5; ++i) {
      if (!legal || !std::isfinite(roi[i])) {
        fail(ErrorKind::bad_input, "MaxRoiPool '{}': region {} names image {}; legal values are 0 to {}", ctx.node.name,
             r, roi[0], shape[0] - 1);
      }
    }
    for (int64_t c = 0; c < shape[1]; ++c) {
      const double* plane = x.data() + (static_cast<int64_t>(roi[0]) * shape[1] + c) * shape[2] * shape[3];
      for (int64_t bin = 0; bin < pooled[0] * pooled[1]; ++bin) {
        const Bin rows = bin_of(roi[2], roi[4], scale, pooled[0], bin / pooled[1], shape[2]);
        const Bin columns = bin_of(roi[1], roi[3], scale, pooled[1], bin % pooled[1], shape[3]);
        const bool empty = rows.begin >= rows.end || columns.begin >= columns.end;
        double best = empty ? 0.0 : plane[rows.begin * shape[3] + columns.begin];
        for (int64_t h = rows.begin; h < rows.end; ++h) {
          for (int64_t w = columns.begin; w < columns.end; ++w) best = std::max(best, plane[h * shape[3] + w]);
        }
        y.push_back(best);
      }
    }
  }
  store_doubles(ctx.out(), y);
}

}  // namespace

KILTER_OP(MaxRoiPool){
    .name = "MaxRoiPool",
    .min_inputs = 2,
    .max_inputs = 2,
    .attrs = {{"pooled_shape", "ints", "required"}, {"spatial_scale", "float", "1"}},
    .summary =
        "y [rois, C, height, width]: largest element of x [N, C, H, W] in each bin of each region (image, x1, y1, x2, "
        "y2), bounds rounded to whole elements and included (Girshick 2015, Fast R-CNN); 0 for empty bins.",
    .infer = infer,
    .reference = reference,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[2,3,9,11] f32[2,5]=0,0,0,8,6,1,2.5,1,9,7.5 | pooled_shape=[3,4]",
              "f32[1,2,8,8] f32[1,5]=0,2,2,14,12 | pooled_shape=[2,2] spatial_scale=0.5",
              "f32[1,2,4,4] f32[1,5]=0,2,2,9,9 | pooled_shape=[3,3] | 7"},
};

}  // namespace kilter
