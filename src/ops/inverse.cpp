#include <cmath>
#include <limits>

#include "ops/support/elementwise.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  const Shape& x = ctx.shape(0);
  if (x.size() < 2 || x[x.size() - 1] != x[x.size() - 2]) {
    ctx.error(fmt::format("input has shape {}, expected [..., n, n]", text(x)));
  }
  infer_same(ctx);
}

/// Turns `m` into the identity by Gauss-Jordan elimination with partial pivoting, and y, the identity, into the inverse
/// of m. A matrix without an inverse gives infinities and NaN.
void invert(double* m, double* y, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i) {
      if (std::abs(m[i * n + k]) > std::abs(m[pivot * n + k])) pivot = i;
    }
    for (int64_t j = 0; pivot != k && j < n; ++j) {
      std::swap(m[k * n + j], m[pivot * n + j]);
      std::swap(y[k * n + j], y[pivot * n + j]);
    }
    const double scale = 1 / m[k * n + k];
    for (int64_t j = 0; j < n; ++j) m[k * n + j] *= scale, y[k * n + j] *= scale;
    for (int64_t i = 0; i < n; ++i) {
      const double factor = m[i * n + k];
      for (int64_t j = 0; i != k && j < n; ++j) {
        m[i * n + j] -= factor * m[k * n + j];
        y[i * n + j] -= factor * y[k * n + j];
      }
    }
  }
}

void reference(ReferenceContext& ctx) {
  std::vector<double> x = load_doubles(ctx.in(0));
  const int64_t n = ctx.in(0).shape().back();
  std::vector<double> y(x.size(), 0.0);
  for (int64_t at = 0; at < ctx.out().elems(); at += n * n) {
    for (int64_t i = 0; i < n; ++i) y[static_cast<size_t>(at + i * n + i)] = 1;
    invert(x.data() + at, y.data() + at, n);
  }
  store_doubles(ctx.out(), y);
}

}  // namespace

KILTER_OP(Inverse){
    .name = "Inverse",
    .domain = "com.microsoft",
    .summary = "Inverse of each matrix of x [..., n, n].",
    .infer = infer,
    .reference = reference,
    .tolerance = {.rtol = 1e-3, .atol = 1e-4},
    .cases = {"f32[3,3]", "f32[2,2,4,4]", "f64[1,1]", "f32[2,2]:0,1,2,0"},
};

}  // namespace kilter
