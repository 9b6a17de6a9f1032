// Scales and zero points: q = saturate(round(x / scale) + zero), x ~ (q - zero) * scale.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/tensor.h"

namespace kilter::quantize {

/// The smallest and the largest of some values. `low > high` means that there were none.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  bool empty() const { return low > high; }
  void add(std::span<const float> values);
};

struct Affine {
  float scale = 1;
  int32_t zero = 0;
};

/// The smallest and the largest value of i8 or u8.
struct Levels {
  int32_t low;
  int32_t high;
};
Levels levels(DType type);

/// Returns the scale and the zero point of i8 or u8 that cover `range` and 0, so that 0 is represented exactly. Source:
/// Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference", 2018,
/// section 2.1. A range that contains only 0, or nothing, gets the scale 1. `range` is finite.
Affine activation_affine(const Range& range, DType type);

/// Weights of i8 or u8, with one scale or one for each index of `axis`. Values are symmetric: the zero point is 0 for
/// i8 and 128 for u8, and no value is the smallest of its type.
struct QuantisedWeights {
  Tensor values;              ///< the shape of the weights
  std::vector<float> scales;  ///< one, or one for each index of the axis
  int32_t zero = 0;
};
/// Quantises f32 weights. No scale is below the corresponding entry of `least`, which is empty or has one entry for
/// each scale.
QuantisedWeights quantise_weights(const Tensor& weights, std::optional<int64_t> axis, DType type,
                                  std::span<const float> least = {});

/// Returns the least scales of weights with which a bias fits in i32: |bias| <= 2^30 * input_scale * scale. `scales` is
/// 1, or the number of elements of the bias.
std::vector<float> least_scales(const Tensor& bias, float input_scale, size_t scales);
/// Returns bias / (input_scale * scales) as i32, in the shape of the bias. `scales` has one element or as many as the
/// bias.
Tensor quantise_bias(const Tensor& bias, float input_scale, std::span<const float> scales);

}  // namespace kilter::quantize
