#include "schedule/winograd_core.h"

#include <cmath>

#include "base/error.h"

namespace kilter {
namespace {

/// Coefficients of the product of x^2 - p^2 over the pairs but `without`, by powers of x^2; the last one is 1.
std::vector<double> even_product(const WinogradTransform& t, size_t without) {
  std::vector<double> c{1};
  for (size_t k = 0; k < t.pairs.size(); ++k) {
    if (k == without) continue;
    const double square = t.pairs[k] * t.pairs[k];
    c.insert(c.begin(), 0);
    for (size_t i = 0; i + 1 < c.size(); ++i) c[i] -= square * c[i + 1];
  }
  return c;
}

double value_at(const std::vector<double>& even, double x) {
  double value = 0;
  for (size_t i = even.size(); i-- > 0;) value = value * x * x + even[i];
  return value;
}

/// The sum of even[i] * d[first + 2 i].
Expr weighted(LoopBuilder& b, const std::vector<double>& even, const std::vector<Expr>& d, size_t first) {
  Expr sum = d[first + 2 * (even.size() - 1)];
  for (size_t i = even.size() - 1; i-- > 0;) {
    const Expr& x = d[first + 2 * i];
    sum = fma(imm(x.elem(), even[i], x.lanes()), x, sum);
  }
  return b.let("t", sum);
}

}  // namespace

std::vector<std::array<double, 3>> filter_rows(const WinogradTransform& t) {
  std::vector<std::array<double, 3>> rows{{1 / value_at(even_product(t, SIZE_MAX), 0), 0, 0}};
  for (size_t k = 0; k < t.pairs.size(); ++k) {
    const double p = t.pairs[k];
    const double scale = 2 * p * p * value_at(even_product(t, k), p);
    for (const double point : {p, -p}) rows.push_back({1 / scale, point / scale, p * p / scale});
  }
  rows.push_back({0, 0, 1});
  return rows;
}

const WinogradTransform& winograd_transform(int64_t outputs) {
  static const WinogradTransform kTwo{2, {1}}, kFour{4, {0.625, 1.5}};
  require(outputs == 2 || outputs == 4, "Winograd with {} outputs a tile", outputs);
  return outputs == 2 ? kTwo : kFour;
}

std::array<double, 36> transformed_filter(const std::vector<std::array<double, 3>>& rows, const float* filter) {
  std::array<double, 36> out{};
  const size_t side = rows.size();
  for (size_t i = 0; i < side; ++i) {
    std::array<double, 3> down{};
    for (size_t s = 0; s < 3; ++s) {
      for (size_t r = 0; r < 3; ++r) down[s] += rows[i][r] * double{filter[r * 3 + s]};
    }
    for (size_t j = 0; j < side; ++j)
      out[i * side + j] = down[0] * rows[j][0] + down[1] * rows[j][1] + down[2] * rows[j][2];
  }
  return out;
}

int64_t input_transform_flops(const WinogradTransform& t) {
  const int64_t m = t.outputs;
  int64_t each = 2 * m;  // the rows of 0 and infinity: m / 2 multiply-adds
  for (const double p : t.pairs) each += 2 * (m - 2) + (p == 1 ? 2 : 4);
  return each * 2 * t.inputs();
}

int64_t output_transform_flops(const WinogradTransform& t) {
  return t.outputs * t.outputs * (t.inputs() + t.outputs);  // m * m operations each: 4 and 16
}

std::vector<Expr> emit_input_transform(LoopBuilder& b, const WinogradTransform& t, const std::vector<Expr>& d) {
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
