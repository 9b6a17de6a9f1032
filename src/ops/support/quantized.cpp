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

void store_quantized(const Tensor& tensor, int64_t i, double real, int64_t zero) {
  const double shifted_real = std::nearbyint(real) + static_cast<double>(zero);  // NaN gives 0
  if (tensor.dtype() == DType::i8) {
    tensor.data<int8_t>()[i] = saturate<int8_t>(shifted_real);
  } else {
    tensor.data<uint8_t>()[i] = saturate<uint8_t>(shifted_real);
  }
}

void check_scalar(const InferContext& ctx, size_t i, const char* what) {
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
