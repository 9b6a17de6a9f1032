// Mean and deviation over blocks of elements, then scale and bias: the reference kernels of the normalisations.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/op.h"
#include "ops/support/iterate.h"

namespace kilter {

/// Returns the element type that attribute stash_type names (an ONNX element type number). Throws node_error if it is
/// not a float.
DType stash_dtype(const Node& node);

/// The result of normalising: the values, and for each block its mean and 1 / deviation.
struct Normalized {
  std::vector<double> values;
  std::vector<double> means;
  std::vector<double> inverse_deviations;
};
/// Computes (x - mean) / sqrt(variance + epsilon) over each run of `block` adjacent elements, with the population
/// variance. If `centre` is false the mean counts as 0, so this divides by the root of the mean square.
Normalized normalize(const Tensor& x, int64_t block, double epsilon, bool centre = true);

/// Computes values[i] * scale[i] + bias[i], where scale and bias broadcast to `shape`. An undefined tensor is omitted.
void scale_and_shift(std::vector<double>& values, const Shape& shape, const Tensor& scale, const Tensor& bias);

/// Checks inputs 0 to 2: x [N, C, d0, ...] (for GroupNormalization also [N, C]), and scale and bias of `extent`
/// elements, all of one float type. Reports errors through the context.
void check_parameters(const InferContext& ctx, int64_t extent);

/// Returns [C, 1, ..., 1] with `rank` - 1 dimensions: the shape of a parameter per channel that broadcasts to [N, C,
/// ...].
Shape channel_shape(int64_t channels, int64_t rank);

}  // namespace kilter
