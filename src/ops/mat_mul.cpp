#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/support/elementwise.h"
#include "ops/support/matmul_shape.h"

namespace kilter {
namespace {

using Multiplied = Types<float, double, Half, BFloat16, int32_t, int64_t, uint32_t, uint64_t>;

void infer(InferContext& ctx) {
  check_types(Multiplied{}, ctx, 0);
  check_same_dtype(ctx);
  ctx.set(0, ctx.dtype(0), matmul_shape(ctx.node, ctx.shape(0), ctx.shape(1)).out);
}

/// Integers multiply and add modulo 2^64, so the low bits are correct for the element type.
template <class T>
void multiply_ints(ReferenceContext& ctx, const MatMulShape& shape) {
  const std::vector<uint64_t> a(ctx.in(0).span<T>().begin(), ctx.in(0).span<T>().end());
  const std::vector<uint64_t> b(ctx.in(1).span<T>().begin(), ctx.in(1).span<T>().end());
  T* y = ctx.out().data<T>();
  matmul_rows<uint64_t>(shape, a.data(), b.data(), [&](int64_t batch, int64_t i, std::span<const uint64_t> row) {
    T* to = y + (batch * shape.m + i) * shape.n;
    for (size_t j = 0; j < row.size(); ++j) to[j] = static_cast<T>(row[j]);
  });
}

/// Returns the largest finite magnitude.
double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double v : values) {
    if (std::isfinite(v)) most = std::max(most, std::abs(v));
  }
  return most;
}

/// Replaces each element whose sum overflows in f32, even if only an intermediate sum does, by the result of the f32
/// sum.
void take_overflow(const MatMulShape& shape, const std::vector<double>& a, const std::vector<double>& b,
                   std::vector<double>& y) {
  if (largest(a) * largest(b) * static_cast<double>(shape.k) <= double{std::numeric_limits<float>::max()}) return;
  const std::vector<float> left(a.begin(), a.end()), right(b.begin(), b.end());
  matmul_rows<float>(shape, left.data(), right.data(), [&](int64_t batch, int64_t i, std::span<const float> row) {
    double* to = y.data() + (batch * shape.m + i) * shape.n;
    for (size_t j = 0; j < row.size(); ++j) {
      if (!std::isfinite(row[j])) to[j] = double{row[j]};
    }
  });
}

void reference(ReferenceContext& ctx) {
  const MatMulShape shape = matmul_shape(ctx.node, ctx.in(0).shape(), ctx.in(1).shape());
  if (is_integer(ctx.in(0).dtype())) {
    visit_types(Types<int32_t, int64_t, uint32_t, uint64_t>{}, ctx.node, ctx.in(0).dtype(),
                [&]<class T>() { multiply_ints<T>(ctx, shape); });
    return;
  }
  const std::vector<double> a = load_doubles(ctx.in(0));
  const std::vector<double> b = load_doubles(ctx.in(1));
  std::vector<double> y(static_cast<size_t>(ctx.out().elems()));
  matmul_rows<double>(shape, a.data(), b.data(), [&](int64_t batch, int64_t i, std::span<const double> row) {
    std::copy(row.begin(), row.end(), y.begin() + (batch * shape.m + i) * shape.n);
  });
  if (ctx.out().dtype() == DType::f32) take_overflow(shape, a, b, y);
  store_doubles(ctx.out(), y);
}

int64_t flops(const OpView& view) {
  return matmul_shape(view.node, view.inputs[0].shape, view.inputs[1].shape).flops();
}

}  // namespace

KILTER_OP(MatMul){
    .name = "MatMul",
    .family = Family::matmul,
    .min_inputs = 2,
    .max_inputs = 2,
    .summary = "a [..., m, k] times b [..., k, n] as numpy.matmul: y [..., m, n]. Integers wrap.",
    .infer = infer,
    .reference = reference,
    .flops = flops,
    // As for Conv: a long sum in a different order.
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[5,33] f32[33,17]", "f32[2,3,17,7] f32[2,3,7,19]", "f32[4,1,9,16] f32[3,16,5]", "f32[64] f32[64,33]",
              "f32[3,7,33] f32[33]", "f32[31] f32[31]", "f32[1,257] f32[257,100]", "f32[20,1,33] f32[33,40]",
              "f32[3,4,1,9] f32[3,1,9,17]", "f32[3,4,1,9] f32[1,4,9,17]", "i32[3,5] i32[5,4]"},
};

}  // namespace kilter
