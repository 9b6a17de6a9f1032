#include "quantize/scale.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.h"

namespace kilter::quantize {
namespace {

/// The smallest scale in use. Below it, x / scale could overflow or lose bits.
constexpr double kLeastScale = std::numeric_limits<float>::min();

int32_t rounded(double x, int32_t zero, Levels limits) {
  const double q = std::nearbyint(x) + zero;
  return static_cast<int32_t>(std::clamp(q, static_cast<double>(limits.low), static_cast<double>(limits.high)));
}

void store(const Tensor& tensor, int64_t i, int32_t q) {
  if (tensor.dtype() == DType::u8) {
    tensor.data<uint8_t>()[i] = static_cast<uint8_t>(q);
  } else {
    tensor.data<int8_t>()[i] = static_cast<int8_t>(q);
  }
}

/// Steps through the elements of a dense tensor by the index of one axis.
struct AxisIndex {
  AxisIndex(const Shape& shape, std::optional<int64_t> axis) {
    if (!axis) return;
    const auto at = shape.begin() + *axis;
    size = *at;
    inner = elems(Shape(at + 1, shape.end()));
  }
  size_t operator()(int64_t i) const { return static_cast<size_t>(i / inner % size); }
  int64_t size = 1, inner = 1;
};

}  // namespace

void Range::add(std::span<const float> values) {
  float least = std::numeric_limits<float>::infinity(), most = -least;
  for (const float v : values) least = std::min(least, v), most = std::max(most, v);
  low = std::min(low, static_cast<double>(least));
  high = std::max(high, static_cast<double>(most));
}

Levels levels(DType type) { return type == DType::u8 ? Levels{0, 255} : Levels{-128, 127}; }

Affine activation_affine(const Range& range, DType type) {
  const Levels limits = levels(type);
  const double low = std::min(range.low, 0.0), high = std::max(range.high, 0.0);
  require(std::isfinite(low) && std::isfinite(high), "a range from {} to {} has no scale", low, high);
  if (low == high) return {1, std::clamp(0, limits.low, limits.high)};
  Affine made;
  made.scale = static_cast<float>(std::max((high - low) / (limits.high - limits.low), kLeastScale));
  made.zero = rounded(static_cast<double>(limits.low) - low / static_cast<double>(made.scale), 0, limits);
  return made;
}

QuantisedWeights quantise_weights(const Tensor& weights, std::optional<int64_t> axis, DType type,
                                  std::span<const float> least) {
  constexpr int32_t kMost = 127;
  const AxisIndex index(weights.shape(), axis);
  std::vector<double> magnitudes(static_cast<size_t>(index.size));
  const auto values = weights.span<float>();
  for (int64_t i = 0; i < weights.elems(); ++i) {
    double& most = magnitudes[index(i)];
    most = std::max(most, std::abs(static_cast<double>(values[static_cast<size_t>(i)])));
  }
  QuantisedWeights made{Tensor(type, weights.shape()), {}, type == DType::u8 ? 128 : 0};
  for (size_t c = 0; c < magnitudes.size(); ++c) {
    double scale = magnitudes[c] / kMost;
    if (!least.empty()) scale = std::max(scale, static_cast<double>(least[c]));
    made.scales.push_back(scale == 0 ? 1.0F : static_cast<float>(std::max(scale, kLeastScale)));
  }
  const Levels limits{made.zero - kMost, made.zero + kMost};
  for (int64_t i = 0; i < weights.elems(); ++i) {
    const float x = values[static_cast<size_t>(i)] / made.scales[index(i)];
    store(made.values, i, rounded(static_cast<double>(x), made.zero, limits));
  }
  return made;
}

std::vector<float> least_scales(const Tensor& bias, float input_scale, size_t scales) {
  constexpr double kMostBias = 1 << 30;
  std::vector<float> least(scales);
  const auto values = bias.span<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    const double scale = std::abs(static_cast<double>(values[i])) / kMostBias / static_cast<double>(input_scale);
    float& known = least[scales == 1 ? 0 : i];
    known = std::max(known, static_cast<float>(scale));
  }
  return least;
}

Tensor quantise_bias(const Tensor& bias, float input_scale, std::span<const float> scales) {
  Tensor q(DType::i32, bias.shape());
  const auto values = bias.span<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    const float scale = input_scale * scales[scales.size() == 1 ? 0 : i];
    q.data<int32_t>()[i] = rounded(static_cast<double>(values[i]) / static_cast<double>(scale), 0,
                                   {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()});
  }
  return q;
}

}  // namespace kilter::quantize
