// Which input elements, with which weights, make each output element of Resize and Upsample, one axis at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace kilter {

/// out[o] along the axis = sum over t < taps of weight[o * taps + t] * in[index[o * taps + t]]. Nearest has 1 tap,
/// linear 2, cubic 4; antialiasing has more. Indices lie inside the input (the edge repeats).
struct ResizeAxis {
  int64_t in = 0;
  int64_t out = 0;
  int64_t taps = 1;
  std::vector<int64_t> index;    ///< out * taps
  std::vector<double> weight;    ///< out * taps
  std::vector<uint8_t> outside;  ///< empty, or per output 1 where the result is the extrapolation value instead

  /// Every output is the input element of the same index.
  bool identity() const;
};

/// The axes are independent: the output is the tensor product of all of them.
struct ResizePlan {
  std::vector<ResizeAxis> axes;  ///< one a dimension of x
  bool nearest = true;           ///< one tap of weight 1 on every axis
  double extrapolation = 0;
};

/// The operands that steer a resize; nullptr or an empty tensor when left out.
struct ResizeOperands {
  const Tensor* roi = nullptr;
  const Tensor* scales = nullptr;
  const Tensor* sizes = nullptr;
};

/// Whether each output of this Resize or Upsample is one element of the input.
bool resize_is_nearest(const Node& node);
/// The output's shape. Throws bad_model.
Shape resize_shape(const Node& node, const Shape& x, const ResizeOperands& operands);
/// Resize (opset 10 and newer) or Upsample (7 to 9) of an input of shape x. Without roi the tables of
/// tf_crop_and_resize are those of the whole image. Throws bad_model; at most 2^26 entries an axis are legal.
ResizePlan resize_plan(const Node& node, const Shape& x, const ResizeOperands& operands);

}  // namespace kilter
