#include "ops/support/elementwise.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

/// Returns the spatial extents d0, ... from the operand `size`, whose values are N, C, d0, ...
Shape spatial_of(const Node& node, const Tensor& size, const Shape& theta) {
  const std::vector<int64_t> extents = operand_ints(node, size, "size");
  const auto rank = static_cast<int64_t>(extents.size()) - 2;
  if ((rank != 2 && rank != 3) || theta != Shape{extents[0], rank, rank + 1}) {
    node_error(node,
               fmt::format("theta has shape {} and size has {} entries; expected [N, 2, 3] and 4, or [N, 3, 4] and 5",
                           text(theta), extents.size()));
  }
  Shape spatial(extents.begin() + 2, extents.end());
  check_shape(node, spatial);
  return spatial;
}

void infer(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  const Shape spatial = spatial_of(ctx.node, ctx.needed(1), ctx.shape(0));
  Shape out = {ctx.shape(0)[0]};
  out.insert(out.end(), spatial.begin(), spatial.end());
  out.push_back(static_cast<int64_t>(spatial.size()));
  ctx.set(0, ctx.dtype(0), out);
}

void reference(ReferenceContext& ctx) {
  const Shape spatial = spatial_of(ctx.node, ctx.in(1), ctx.in(0).shape());
  const bool align = ctx.node.int_attr("align_corners", 0) != 0;
  const std::vector<double> theta = load_doubles(ctx.in(0));
  const size_t rank = spatial.size();
  std::vector<double> y;
  for (int64_t n = 0; n < ctx.in(0).shape()[0]; ++n) {
    const double* matrix = theta.data() + n * static_cast<int64_t>(rank * (rank + 1));
    for_each_index(spatial, [&](std::span<const int64_t> at) {
      // The coordinates from -1 to 1, last axis first, followed by 1.
      std::vector<double> point(rank + 1, 1.0);
      for (size_t a = 0; a < rank; ++a) {
        const auto extent = static_cast<double>(spatial[a]);
        const auto i = static_cast<double>(at[a]);
        point[rank - 1 - a] = align ? (extent > 1 ? 2 * i / (extent - 1) - 1 : -1.0) : (2 * i + 1) / extent - 1;
      }
      for (size_t row = 0; row < rank; ++row) {
        double sum = 0;
        for (size_t k = 0; k <= rank; ++k) sum += matrix[row * (rank + 1) + k] * point[k];
        y.push_back(sum);
      }
    });
  }
  store_doubles(ctx.out(), y);
}

}  // namespace

KILTER_OP(AffineGrid){
    .name = "AffineGrid",
    .since = 20,
    .min_inputs = 2,
    .max_inputs = 2,
    .attrs = {{"align_corners", "int", "0"}},
    .summary =
        "Sampling positions [N, H, W, 2] or [N, D, H, W, 3] for GridSample: theta [N, 2, 3] or [N, 3, 4] times the "
        "positions of an image of `size`, from -1 to 1, last axis first.",
    .infer = infer,
    .reference = reference,
    .shape_operands = {1},
    .cases = {"f32[2,2,3] i64[4]=2,3,4,5", "f32[1,3,4] i64[5]=1,2,3,4,5 | align_corners=1",
              "f32[1,2,3] i64[4]=1,1,7,3 | align_corners=1"},
};

}  // namespace kilter
