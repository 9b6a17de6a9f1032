#include "ops/support/quantized.h"

#include <cmath>

#include "base/convert.h"
#include "ops/support/elementwise.h"

namespace kilter {

std::vector<int64_t> shifted(const Tensor& q, const Tensor& zero, const Shape& zero_shape) {
  std::vector<int64_t> values = q.ints();
  if (!zero.defined()) return values;
  const std::vector<int64_t> zeros = zero.ints();
  size_t i = 0;
  for_each_offset<1>(q.shape(), {broadcast_strides(zero_shape, q.shape())},
                     [&](const std::array<int64_t, 1>& at) { values[i++] -= zeros[static_cast<size_t>(at[0])]; });
  return values;
}

namespace {

/// Stores saturate(whole + zero); NaN gives 0.
void store_saturated(const Tensor& tensor, int64_t i, double whole, int64_t zero) {
  const double sum = whole + static_cast<double>(zero);
  if (tensor.dtype() == DType::i8) {
    tensor.data<int8_t>()[i] = saturate<int8_t>(sum);
  } else {
    tensor.data<uint8_t>()[i] = saturate<uint8_t>(sum);
  }
}

}  // namespace

void store_quantized(const Tensor& tensor, int64_t i, double real, int64_t zero) {
  store_saturated(tensor, i, std::nearbyint(real), zero);
}

void store_quotient(const Tensor& tensor, int64_t i, Wide value, double scale, int64_t zero) {
  store_saturated(tensor, i, rounded_quotient(value, scale), zero);
}

PerTensor per_tensor(const ReferenceContext& ctx, size_t scale, size_t zero) {
  return {ctx.in(scale).as_double(0), ctx.has(zero) ? ctx.in(zero).as_int(0) : 0};
}

void check_per_tensor(const InferContext& ctx, DType type, size_t scale, size_t zero, std::string_view what) {
  if (!ctx.has(scale)) ctx.error(fmt::format("{}_scale (input {}) is left out but required", what, scale));
  check_types(Types<float>{}, ctx, scale);
  check_scalar(ctx, scale, fmt::format("{}_scale", what));
  if (!ctx.has(zero)) return;
  if (ctx.dtype(zero) != type) {
    ctx.error(fmt::format("{}_zero_point (input {}) has element type {}, expected {}", what, zero,
                          name(ctx.dtype(zero)), name(type)));
  }
  check_scalar(ctx, zero, fmt::format("{}_zero_point", what));
}

void check_scalar(const InferContext& ctx, size_t i, std::string_view what) {
  if (ctx.has(i) && elems(ctx.shape(i)) != 1) {
    ctx.error(fmt::format("{} (input {}) has shape {}, expected one element", what, i, text(ctx.shape(i))));
  }
}

void check_zero_type(const InferContext& ctx, size_t zero, size_t q) {
  if (!ctx.has(zero) || ctx.dtype(zero) == ctx.dtype(q)) return;
  ctx.error(fmt::format("zero point (input {}) has element type {}, expected {} to match input {}", zero,
                        name(ctx.dtype(zero)), name(ctx.dtype(q)), q));
}

void check_quantized(const InferContext& ctx, size_t i) { check_types(Types<int8_t, uint8_t>{}, ctx, i); }

}  // namespace kilter
