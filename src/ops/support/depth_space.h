// DepthToSpace and SpaceToDepth as one traversal in two directions.
#pragma once

#include "ops/support/operands.h"
#include "ops/support/regions.h"

namespace kilter {

/// Index vectors [n, c, h, i, w, j] with the strides of the deep tensor [N, C * b * b, H, W] and of the wide tensor [N,
/// C, H * b, W * b].
struct DepthSpace {
  Shape extent;
  Shape deep;
  Shape wide;
};
DepthSpace depth_space(const Node& node, const Shape& deep, const Shape& wide);

/// Returns the attribute blocksize. Throws node_error if it is below 1.
int64_t block_of(const Node& node);
/// Throws node_error unless input 0 has rank 4 and the mode is known.
void check_image(const InferContext& ctx);

}  // namespace kilter
