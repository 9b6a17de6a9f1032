// Mean and deviation over blocks of elements, then scale and bias: the reference kernels of the normalisations.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/op.h"
#include "ops/support/iterate.h"

namespace kilter {

/// The element type that attribute stash_type names (an ONNX element type number); node_error when it is not a float.
DType stash_dtype(const Node& node);

/// What normalising made: the values, and per block its mean and 1 / deviation.
struct Normalized {
  std::vector<double> values;
  std::vector<double> means;
  std::vector<double> inverse_deviations;
};
/// (x - mean) / sqrt(variance + epsilon) over each run of `block` neighbouring elements, population variance. With
/// `centre` false the mean counts as 0: division by the root of the mean square.
Normalized normalize(const Tensor& x, int64_t block, double epsilon, bool centre = true);

/// values[i] * scale[i] + bias[i], where scale and bias broadcast to `shape`; an undefined tensor is left out.
void scale_and_shift(std::vector<double>& values, const Shape& shape, const Tensor& scale, const Tensor& bias);

/// Inputs 0 to 2 as x [N, C, d0, ...] (for GroupNormalization also [N, C]), scale and bias of `extent` elements, all of
/// one float type; errors through the context.
void check_parameters(const InferContext& ctx, int64_t extent);

/// [C, 1, ..., 1] with `rank` - 1 dimensions: a parameter per channel that broadcasts to [N, C, ...].
Shape channel_shape(int64_t channels, int64_t rank);

}  // namespace kilter
