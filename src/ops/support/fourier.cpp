#include "ops/support/fourier.h"

#include <numbers>

namespace kilter {
namespace {

/// Powers of the root of unity for the whole length, shared by all levels.
struct Roots {
  explicit Roots(size_t length, bool inverse) {
    for (size_t k = 0; k < length; ++k) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(length);
      powers.emplace_back(std::cos(angle), inverse ? std::sin(angle) : -std::sin(angle));
    }
  }
  std::vector<Complex> powers;
};

size_t smallest_factor(size_t n) {
  for (size_t p = 2; p * p <= n; ++p) {
    if (n % p == 0) return p;
  }
  return n;
}

/// Transforms x[0], x[stride], ... (n of them) into out; n * stride = length.
void transform(const Roots& roots, const Complex* x, size_t stride, size_t n, Complex* out) {
  if (n == 1) {
    *out = *x;
    return;
  }
  const size_t p = smallest_factor(n);
  const size_t m = n / p;
  for (size_t r = 0; r < p; ++r) transform(roots, x + r * stride, stride * p, m, out + r * m);
  const std::vector<Complex> parts(out, out + n);
  for (size_t k = 0; k < n; ++k) {
    Complex sum = 0;
    for (size_t r = 0; r < p; ++r) sum += parts[r * m + k % m] * roots.powers[r * k % n * stride];
    out[k] = sum;
  }
}

}  // namespace

std::vector<Complex> fourier(const std::vector<Complex>& x, bool inverse) {
  std::vector<Complex> y(x.size());
  if (x.empty()) return y;
  transform(Roots(x.size(), inverse), x.data(), 1, x.size(), y.data());
  if (inverse) {
    for (Complex& value : y) value /= static_cast<double>(x.size());
  }
  return y;
}

}  // namespace kilter
