#include <cmath>

#include "ops/support/elementwise.h"

namespace kilter {
namespace {

void infer(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  const Shape& x = ctx.shape(0);
  if (x.size() < 2 || x[x.size() - 1] != x[x.size() - 2]) {
    ctx.error(fmt::format("input has shape {}, expected [..., n, n]", text(x)));
  }
  ctx.set(0, ctx.dtype(0), {x.begin(), x.end() - 2});
}

/// Computes the determinant by Gaussian elimination with partial pivoting. Destroys the matrix.
double determinant(double* m, int64_t n) {
  double result = 1;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i) {
      if (std::abs(m[i * n + k]) > std::abs(m[pivot * n + k])) pivot = i;
    }
    if (m[pivot * n + k] == 0) return 0;
    if (pivot != k) {
      for (int64_t j = 0; j < n; ++j) std::swap(m[k * n + j], m[pivot * n + j]);
      result = -result;
    }
    result *= m[k * n + k];
    for (int64_t i = k + 1; i < n; ++i) {
      const double factor = m[i * n + k] / m[k * n + k];
      for (int64_t j = k; j < n; ++j) m[i * n + j] -= factor * m[k * n + j];
    }
  }
  return result;
}

void reference(ReferenceContext& ctx) {
  std::vector<double> x = load_doubles(ctx.in(0));
  const int64_t n = ctx.in(0).shape().back();
  std::vector<double> y;
  for (int64_t b = 0; b < ctx.out().elems(); ++b) y.push_back(determinant(x.data() + b * n * n, n));
  store_doubles(ctx.out(), y);
}

}  // namespace

KILTER_OP(Det){
    .name = "Det",
    .since = 11,
    .summary = "Determinant of each matrix of x [..., n, n]: y [...].",
    .infer = infer,
    .reference = reference,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[3,3]", "f32[2,4,5,5]", "f64[1,1]"},
};

}  // namespace kilter
