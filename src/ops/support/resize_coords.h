// The input elements and weights that make up each output element of Resize and Upsample, one axis at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace kilter {

/// Along the axis, out[o] = sum over t < taps of weight[o * taps + t] * in[index[o * taps + t]]. Nearest has 1 tap,
/// linear 2, cubic 4; antialiasing has more. Indices are inside the input (the edge is repeated).
struct ResizeAxis {
  int64_t in = 0;
  int64_t out = 0;
  int64_t taps = 1;
  std::vector<int64_t> index;    ///< out * taps
  std::vector<double> weight;    ///< out * taps
  std::vector<uint8_t> outside;  ///< empty, or 1 for each output whose result is the extrapolation value

  /// Whether every output is the input element of the same index.
  bool identity() const;
};

/// The axes are independent: the output is the tensor product of all of them.
struct ResizePlan {
  std::vector<ResizeAxis> axes;  ///< one per dimension of x
  bool nearest = true;           ///< one tap of weight 1 on every axis
  double extrapolation = 0;
};

/// The operands that control a resize; nullptr or an empty tensor if omitted.
struct ResizeOperands {
  const Tensor* roi = nullptr;
  const Tensor* scales = nullptr;
  const Tensor* sizes = nullptr;
};

/// Whether each output of this Resize or Upsample is a single element of the input.
bool resize_is_nearest(const Node& node);
/// Returns the output's shape. Throws bad_model.
Shape resize_shape(const Node& node, const Shape& x, const ResizeOperands& operands);
/// Plans a Resize (opset 10 and newer) or Upsample (7 to 9) of an input of shape x. Without roi, the tables of
/// tf_crop_and_resize are those of the whole image. Throws bad_model; each axis may have at most 2^26 entries.
ResizePlan resize_plan(const Node& node, const Shape& x, const ResizeOperands& operands);

}  // namespace kilter
