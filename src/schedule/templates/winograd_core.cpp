#include "schedule/templates/winograd_core.h"

#include <algorithm>
#include <cmath>

namespace kilter {
namespace {

/// The sum of even[i] * d[first + 2 i].
Expr weighted(LoopBuilder& b, const std::vector<double>& even, const std::vector<Expr>& d, size_t first) {
  Expr sum = d[first + 2 * (even.size() - 1)];
  for (size_t i = even.size() - 1; i-- > 0;) {
    const Expr& x = d[first + 2 * i];
    sum = fma(imm(x.elem(), even[i], x.lanes()), x, sum);
  }
  return b.let("t", sum);
}

using Rows = std::vector<std::vector<double>>;

/// The solution x of a x = b by elimination; `a` must be symmetric and positive definite.
Rows solved(Rows a, Rows b) {
  const size_t n = a.size();
  for (size_t k = 0; k < n; ++k) {
    for (size_t i = 0; i < n; ++i) {
      if (i == k) continue;
      const double factor = a[i][k] / a[k][k];
      for (size_t j = k; j < n; ++j) a[i][j] -= factor * a[k][j];
      for (size_t j = 0; j < b[i].size(); ++j) b[i][j] -= factor * b[k][j];
    }
  }
  for (size_t k = 0; k < n; ++k) {
    for (double& x : b[k]) x /= a[k][k];
  }
  return b;
}

}  // namespace

// Least squares, with each row of G weighted by its size: (G' W G) R = G' W, W = 1 / (the row's largest value)^2.
std::vector<std::vector<double>> filter_recovery(const WinogradTransform& t) {
  const Rows rows = filter_rows(t);
  const size_t taps = rows[0].size();
  Rows products(taps, std::vector<double>(taps, 0)), right(taps, std::vector<double>(rows.size(), 0));
  for (size_t i = 0; i < rows.size(); ++i) {
    double most = 0;
    for (const double x : rows[i]) most = std::max(most, std::abs(x));
    for (size_t r = 0; r < taps; ++r) {
      right[r][i] = rows[i][r] / (most * most);
      for (size_t s = 0; s < taps; ++s) products[r][s] += right[r][i] * rows[i][s];
    }
  }
  return solved(products, right);
}

int64_t input_transform_flops(const WinogradTransform& t) {
  const auto pairs = static_cast<int64_t>(t.pairs.size());
  if (t.identity()) return 0;
  int64_t flops = 4 * pairs;  // the rows of 0 and infinity, in multiply-adds
  for (const double p : t.pairs) flops += 4 * (pairs - 1) + (p == 1 ? 2 : 4);
  return flops;
}

int64_t output_transform_flops(const WinogradTransform& t) {
  if (t.identity()) return 0;
  auto flops = static_cast<int64_t>(2 * t.pairs.size());
  for (int64_t j = 0; j < t.outputs; ++j) {
    bool first = j > 0 && j < t.outputs - 1;
    for (const double p : t.pairs) {
      const int64_t multiplies = j == 0 || p == 1 ? 0 : 1;
      flops += multiplies + (first ? 0 : 1);
      first = false;
    }
  }
  return flops;
}

std::vector<Expr> emit_input_transform(LoopBuilder& b, const WinogradTransform& t, const std::vector<Expr>& d) {
  if (t.identity()) return d;
  const std::vector<double> all = even_product(t, SIZE_MAX);
  std::vector<Expr> out{weighted(b, all, d, 0)};
  for (size_t k = 0; k < t.pairs.size(); ++k) {
    const std::vector<double> rest = even_product(t, k);
    const Expr even = weighted(b, rest, d, 2), odd = weighted(b, rest, d, 1);
    for (const double p : {t.pairs[k], -t.pairs[k]})
      out.push_back(b.let("v", p == 1 ? even + odd : fma(imm(odd.elem(), p, odd.lanes()), odd, even)));
  }
  out.push_back(weighted(b, all, d, 1));
  return out;
}

std::vector<Expr> emit_output_transform(LoopBuilder& b, const WinogradTransform& t, const std::vector<Expr>& y) {
  if (t.identity()) return y;
  std::vector<Expr> sums, differences;
  for (size_t k = 0; k < t.pairs.size(); ++k) {
    sums.push_back(b.let("s", y[1 + 2 * k] + y[2 + 2 * k]));
    differences.push_back(b.let("d", y[1 + 2 * k] - y[2 + 2 * k]));
  }
  std::vector<Expr> out;
  for (int64_t j = 0; j < t.outputs; ++j) {
    Expr sum = j == 0 ? y.front() : j == t.outputs - 1 ? y.back() : Expr();
    for (size_t k = 0; k < t.pairs.size(); ++k) {
      const double power = std::pow(t.pairs[k], static_cast<double>(j));
      const Expr& part = j % 2 == 0 ? sums[k] : differences[k];
      const Expr factor = imm(part.elem(), power, part.lanes());
      if (!sum.defined()) {
        sum = power == 1 ? part : factor * part;
      } else {
        sum = power == 1 ? sum + part : fma(factor, part, sum);
      }
    }
    out.push_back(b.let("y", sum));
  }
  return out;
}

}  // namespace kilter
