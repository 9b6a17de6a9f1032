#include "zoo/net.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "base/out_of_memory.h"
#include "base/random.h"

namespace kilter::zoo {
namespace {

/// Zeros that the system maps without allocating memory for them; read-only.
Tensor blank(Shape shape) {
  const auto bytes = static_cast<size_t>(std::max<int64_t>(1, elems(shape))) * sizeof(float);
  void* zeros = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (zeros == MAP_FAILED) fail_out_of_memory(static_cast<int64_t>(bytes), "addresses of weights");
  const std::shared_ptr<void> owner(zeros, [bytes](void* memory) { munmap(memory, bytes); });
  return {DType::f32, std::move(shape), static_cast<std::byte*>(zeros), owner};
}

}  // namespace

ValueId Net::input(std::string name, Shape shape) {
  return builder_.input(std::move(name), DType::f32, std::move(shape));
}

ValueId Net::image(std::string name) {
  return input(std::move(name), {options_.batch, 3, options_.size, options_.size});
}

ValueId Net::weight(const std::string& name, Shape shape, float low, float high) {
  if (!options_.weights) return builder_.constant(blank(std::move(shape)), name);
  Tensor tensor(DType::f32, std::move(shape));
  Random(options_.seed, name).fill_uniform(tensor.span<float>(), low, high);
  return builder_.constant(std::move(tensor), name);
}

// A uniform distribution on [-a, a] has the standard deviation a / sqrt(3); it is much faster to draw than a normal
// one.
ValueId Net::weight(const std::string& name, Shape shape, float deviation) {
  const float bound = deviation * std::sqrt(3.0F);
  return weight(name, std::move(shape), -bound, bound);
}

ValueId Net::ints(const std::string& name, const std::vector<int64_t>& values) { return builder_.list(values, name); }

ValueId Net::conv(const std::string& path, ValueId x, const ConvSpec& spec) {
  const int64_t in = channels(x) / spec.group;
  const auto fan_in = static_cast<float>(in * spec.kernel.h * spec.kernel.w);
  std::vector<ValueId> inputs = {
      x, weight(path + ".weight", {spec.out, in, spec.kernel.h, spec.kernel.w}, spec.gain / std::sqrt(fan_in))};
  if (spec.bias) inputs.push_back(bias(path, spec.out));
  return builder_.add("Conv", std::move(inputs),
                      {{"group", spec.group},
                       {"kernel_shape", std::vector<int64_t>{spec.kernel.h, spec.kernel.w}},
                       {"pads", std::vector<int64_t>{spec.pad.h, spec.pad.w, spec.pad.h, spec.pad.w}},
                       {"strides", std::vector<int64_t>{spec.stride, spec.stride}}},
                      path);
}

ValueId Net::conv_relu(const std::string& path, ValueId x, const ConvSpec& spec) {
  return relu(path + ".relu", conv(path, x, spec));
}

ValueId Net::conv3d(const std::string& path, ValueId x, const VolumeSpec& spec) {
  const auto& [depth, height, width] = spec.kernel;
  const auto fan_in = static_cast<float>(channels(x) * depth * height * width);
  const ValueId filters =
      weight(path + ".weight", {spec.out, channels(x), depth, height, width}, spec.gain / std::sqrt(fan_in));
  std::vector<int64_t> pads;
  for (int end = 0; end < 2; ++end) {
    for (const int64_t extent : spec.kernel) pads.push_back(extent / 2);
  }
  return builder_.add("Conv", {x, filters, bias(path, spec.out)},
                      {{"kernel_shape", std::vector<int64_t>(spec.kernel.begin(), spec.kernel.end())},
                       {"pads", pads},
                       {"strides", std::vector<int64_t>(spec.stride.begin(), spec.stride.end())}},
                      path);
}

ValueId Net::double_volume(const std::string& path, ValueId x) {
  const int64_t count = channels(x);
  const std::vector<int64_t> twice{2, 2, 2};
  const float deviation = kLinearGain / std::sqrt(static_cast<float>(count));
  return builder_.add("ConvTranspose", {x, weight(path + ".weight", {count, count, 2, 2, 2}, deviation)},
                      {{"kernel_shape", twice}, {"strides", twice}}, path);
}

ValueId Net::upsample(const std::string& path, ValueId x, int64_t factor) {
  const int64_t kernel = 2 * factor;
  const int64_t pad = factor / 2;
  return builder_.add("ConvTranspose", {x, weight(path + ".weight", {channels(x), 1, kernel, kernel}, 0.5F)},
                      {{"group", channels(x)},
                       {"kernel_shape", std::vector<int64_t>{kernel, kernel}},
                       {"pads", std::vector<int64_t>{pad, pad, pad, pad}},
                       {"strides", std::vector<int64_t>{factor, factor}}},
                      path);
}

ValueId Net::batch_norm(const std::string& path, ValueId x) {
  const Shape shape = {channels(x)};
  const ValueId scale = weight(path + ".weight", shape, 0.8F, 1.2F);
  const ValueId shift = bias(path, channels(x));
  const ValueId mean = weight(path + ".mean", shape, -0.1F, 0.1F);
  const ValueId variance = weight(path + ".variance", shape, 0.5F, 1.5F);
  GraphBuilder::Options options;
  options.name = path;
  options.expand = false;
  return builder_.add("BatchNormalization", {x, scale, shift, mean, variance}, {{"epsilon", 1e-5F}}, options).at(0);
}

ValueId Net::layer_norm(const std::string& path, ValueId x, float epsilon) {
  const int64_t count = shape(x).back();
  const ValueId scale = weight(path + ".weight", {count}, 0.8F, 1.2F);
  return builder_.add("LayerNormalization", {x, scale, bias(path, count)},
                      {{"axis", int64_t{-1}}, {"epsilon", epsilon}}, path);
}

ValueId Net::dense(const std::string& path, ValueId x, int64_t out, float gain) {
  const int64_t in = shape(x).back();
  const ValueId matrix = weight(path + ".weight", {out, in}, gain / std::sqrt(static_cast<float>(in)));
  return builder_.add("Gemm", {x, matrix, bias(path, out)}, {{"transB", int64_t{1}}}, path);
}

ValueId Net::linear(const std::string& path, ValueId x, int64_t out, float gain) {
  const int64_t in = shape(x).back();
  const ValueId matrix = weight(path + ".weight", {in, out}, gain / std::sqrt(static_cast<float>(in)));
  const ValueId product = builder_.add("MatMul", {x, matrix}, {}, path);
  return add(path + ".add", product, bias(path, out));
}

ValueId Net::relu6(const std::string& path, ValueId x) {
  return builder_.add("Clip", {x, scalar(path + ".min", 0), scalar(path + ".max", 6)}, {}, path);
}

Attrs Net::pool_attrs(const PoolSpec& spec) const {
  return {{"ceil_mode", int64_t{spec.ceil}},
          {"kernel_shape", std::vector<int64_t>{spec.kernel, spec.kernel}},
          {"pads", std::vector<int64_t>{spec.pad, spec.pad, spec.pad, spec.pad}},
          {"strides", std::vector<int64_t>{spec.stride, spec.stride}}};
}

ValueId Net::max_pool(const std::string& path, ValueId x, const PoolSpec& spec) {
  return builder_.add("MaxPool", {x}, pool_attrs(spec), path);
}

ValueId Net::average_pool(const std::string& path, ValueId x, const PoolSpec& spec) {
  Attrs attrs = pool_attrs(spec);
  attrs["count_include_pad"] = int64_t{1};
  return builder_.add("AveragePool", {x}, std::move(attrs), path);
}

ValueId Net::concat(const std::string& path, std::vector<ValueId> parts) {
  return builder_.add("Concat", std::move(parts), {{"axis", int64_t{1}}}, path);
}

ValueId Net::global_pool(const std::string& path, ValueId x) {
  return flatten(path + ".flatten", builder_.add("GlobalAveragePool", {x}, {}, path));
}

}  // namespace kilter::zoo
