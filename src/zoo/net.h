// The building blocks of the network families: layers with seeded weights on top of GraphBuilder.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "ops/support/builder.h"
#include "zoo/zoo.h"

namespace kilter::zoo {

/// Height and width of a window, stride or pad; one number stands for both.
struct Extent {
  int64_t h = 0;
  int64_t w = 0;
  Extent(int64_t both) : h(both), w(both) {}  // NOLINT(google-explicit-constructor)
  Extent(int64_t height, int64_t width) : h(height), w(width) {}
};

/// Weights have mean 0 and standard deviation gain / sqrt(number of inputs per output): gain * gain is the variance of
/// the outputs divided by the mean square of the inputs.
constexpr float kReluGain = 1.41421356F;  ///< before a Relu: keeps the mean square (He et al. 2015)
constexpr float kLinearGain = 1;          ///< if no Relu follows
constexpr float kBranchGain = 0.4F;       ///< last layer of a residual branch: sums of many branches grow slowly

struct ConvSpec {
  int64_t out;
  Extent kernel = 1;
  int64_t stride = 1;
  Extent pad = 0;  ///< the same at both ends
  int64_t group = 1;
  bool bias = true;
  float gain = kReluGain;
};

/// A convolution of volumes: depth, height and width of the kernel and the strides; padded by half the kernel.
struct VolumeSpec {
  int64_t out;
  std::array<int64_t, 3> kernel = {1, 1, 1};
  std::array<int64_t, 3> stride = {1, 1, 1};
  float gain = kReluGain;
};

struct PoolSpec {
  int64_t kernel;
  int64_t stride;
  int64_t pad = 0;
  bool ceil = false;  ///< the last window may extend beyond the end
};

/// A network under construction. Layers are named by their path, such as "layer1.0.conv1", and their weights
/// "PATH.weight" and "PATH.bias". Images are [batch, channels, height, width].
class Net {
 public:
  explicit Net(const Options& options) : options_(options), builder_(graph_, kOpset) {}

  const Options& options() const { return options_; }
  const Shape& shape(ValueId x) const { return graph_.type(x).shape; }
  int64_t channels(ValueId x) const { return shape(x).at(1); }

  ValueId input(std::string name, Shape shape);
  /// The input [batch, 3, size, size].
  ValueId image(std::string name = "input");

  ValueId conv(const std::string& path, ValueId x, const ConvSpec& spec);
  ValueId conv_relu(const std::string& path, ValueId x, const ConvSpec& spec);
  /// A convolution of volumes [batch, channels, frames, height, width], with bias.
  ValueId conv3d(const std::string& path, ValueId x, const VolumeSpec& spec);
  /// A transposed convolution without bias, to twice the frames, height and width and the same number of channels.
  ValueId double_volume(const std::string& path, ValueId x);
  /// A transposed convolution with one filter per channel, without bias. The output is `factor` times as high and wide;
  /// the kernel is 2 * factor.
  ValueId upsample(const std::string& path, ValueId x, int64_t factor);
  /// One BatchNormalization operator in inference form, with random statistics.
  ValueId batch_norm(const std::string& path, ValueId x);
  /// Normalises over the last dimension.
  ValueId layer_norm(const std::string& path, ValueId x, float epsilon);
  /// y = x W^T + b as Gemm, x [rows, inputs].
  ValueId dense(const std::string& path, ValueId x, int64_t out, float gain = kLinearGain);
  /// y = x W + b as MatMul and Add, x [..., inputs].
  ValueId linear(const std::string& path, ValueId x, int64_t out, float gain = kLinearGain);

  ValueId relu(const std::string& path, ValueId x) { return builder_.add("Relu", {x}, {}, path); }
  ValueId relu6(const std::string& path, ValueId x);
  ValueId max_pool(const std::string& path, ValueId x, const PoolSpec& spec);
  /// An average pool whose averages include the zeros of the padding.
  ValueId average_pool(const std::string& path, ValueId x, const PoolSpec& spec);
  ValueId concat(const std::string& path, std::vector<ValueId> parts);
  ValueId add(const std::string& path, ValueId a, ValueId b) { return builder_.add("Add", {a, b}, {}, path); }
  /// [batch, channels, height, width] -> [batch, channels].
  ValueId global_pool(const std::string& path, ValueId x);
  ValueId flatten(const std::string& path, ValueId x) { return builder_.add("Flatten", {x}, {}, path); }

  /// Any operator, for those without a layer function of their own.
  ValueId op(std::string_view name, const std::string& path, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return builder_.add(name, std::move(inputs), std::move(attrs), path);
  }
  ValueId scalar(const std::string& name, float value) { return builder_.constant(Tensor::scalar<float>(value), name); }
  ValueId ints(const std::string& name, const std::vector<int64_t>& values);

  void output(ValueId x, std::string name = "output") { graph_.add_output(x, std::move(name)); }
  Graph take() { return std::move(graph_); }

 private:
  /// Random constant in [low, high).
  ValueId weight(const std::string& name, Shape shape, float low, float high);
  /// Random constant of mean 0 and the given standard deviation.
  ValueId weight(const std::string& name, Shape shape, float deviation);
  ValueId bias(const std::string& path, int64_t count) { return weight(path + ".bias", {count}, -0.1F, 0.1F); }
  Attrs pool_attrs(const PoolSpec& spec) const;

  Options options_;
  Graph graph_;
  GraphBuilder builder_;
};

}  // namespace kilter::zoo
