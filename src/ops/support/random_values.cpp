#include "ops/support/random_values.h"

#include <atomic>
#include <bit>
#include <random>

#include "ops/support/dtype_attr.h"
#include "ops/support/iterate.h"

namespace kilter {
namespace {

uint64_t fresh_seed() {
  static std::atomic<uint64_t> next = [] {
    std::random_device device;
    return static_cast<uint64_t>(device()) << 32 | device();
  }();
  return next.fetch_add(1);
}

}  // namespace

Random random_stream(const Node& node) {
  if (!node.has_attr("seed")) return Random(fresh_seed());
  return Random(std::bit_cast<uint32_t>(node.float_attr("seed", 0)));
}

void infer_random(InferContext& ctx, DType fallback, Shape shape) {
  const DType type = dtype_attr(ctx.node, "dtype", fallback);
  if (!is_float(type))
    ctx.error(fmt::format("output element type is {}; legal values are f32, f64, f16, bf16", name(type)));
  for (int64_t d : shape) {
    if (d < 0) ctx.error(fmt::format("attribute shape is {}; every dimension must be 0 or more", text(shape)));
  }
  ctx.set(0, type, std::move(shape));
}

void reference_random_normal(ReferenceContext& ctx) {
  const Random stream = random_stream(ctx.node);
  const double mean = ctx.node.float_attr("mean", 0);
  const double scale = ctx.node.float_attr("scale", 1);
  std::vector<double> values(static_cast<size_t>(ctx.out().elems()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = mean + scale * static_cast<double>(stream.normal(i));
  store_doubles(ctx.out(), values);
}

void reference_random_uniform(ReferenceContext& ctx) {
  const Random stream = random_stream(ctx.node);
  const double low = ctx.node.float_attr("low", 0);
  const double high = ctx.node.float_attr("high", 1);
  std::vector<double> values(static_cast<size_t>(ctx.out().elems()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = low + (high - low) * static_cast<double>(stream.uniform(i));
  store_doubles(ctx.out(), values);
}

}  // namespace kilter
