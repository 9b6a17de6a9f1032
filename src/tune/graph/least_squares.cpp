#include "tune/graph/least_squares.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace kilter::tune {
namespace {

/// Tukey's constant. On data without outliers it gives 95 % of the efficiency of plain least squares.
constexpr double kCut = 4.685;
/// Logarithms of ratios below this are rounding errors, not scatter.
constexpr double kFloor = 1e-6;
/// Weight left to an outlier, so that unknowns that occur only in outliers still get a value.
constexpr double kLeastWeight = 1e-4;
/// Numbers of iterations: first plain least squares, then least absolute logarithms, then the biweight.
constexpr int kPlain = 10;
constexpr int kAbsolute = 40;
constexpr int kBiweight = 40;

using Rows = std::vector<std::vector<double>>;

struct Normal {
  std::vector<double> matrix;  ///< n x n
  std::vector<double> right;
};

Normal normal_equations(const Rows& rows, const std::vector<double>& targets, const std::vector<double>& weights) {
  const size_t n = rows[0].size();
  Normal out{std::vector<double>(n * n), std::vector<double>(n)};
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) out.matrix[i * n + j] += weights[r] * rows[r][i] * rows[r][j];
      out.right[i] += weights[r] * rows[r][i] * targets[r];
    }
  }
  return out;
}

/// Inverse of the part of the matrix whose unknowns are in the set `free` (bits, the last unknown lowest); 0 elsewhere.
/// The diagonal is enlarged slightly, so that an inverse exists even if the rows do not distinguish some unknowns.
std::vector<double> inverse_of(const Normal& normal, unsigned free) {
  const size_t n = normal.right.size();
  const size_t width = 2 * n;
  std::vector<double> a(n * width);
  const auto is_free = [&](size_t i) { return (free >> (n - 1 - i) & 1U) != 0; };
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) a[i * width + j] = is_free(i) && is_free(j) ? normal.matrix[i * n + j] : 0;
    a[i * width + i] = is_free(i) ? a[i * width + i] * (1 + 1e-11) : 1;
    a[i * width + n + i] = is_free(i) ? 1 : 0;
  }
  for (size_t p = 0; p < n; ++p) {
    const double pivot = a[p * width + p];
    for (size_t j = 0; j < width; ++j) a[p * width + j] /= pivot;
    for (size_t i = 0; i < n; ++i) {
      const double factor = a[i * width + p];
      if (i == p || factor == 0) continue;
      for (size_t j = 0; j < width; ++j) a[i * width + j] -= factor * a[p * width + j];
    }
  }
  std::vector<double> out(n * n);
  for (size_t i = 0; i < n; ++i)
    std::copy_n(a.begin() + static_cast<long>(i * width + n), n, out.begin() + static_cast<long>(i * n));
  return out;
}

struct Solution {
  std::vector<double> unknowns, inverse;
};

/// Solves non-negative least squares: fits every set of unknowns with all others at 0, and of the fits without negative
/// values returns the one that explains most.
Solution solve(const Normal& normal) {
  const size_t n = normal.right.size();
  Solution best;
  double most = 0;
  for (unsigned free = 1; free < 1U << n; ++free) {
    Solution at{std::vector<double>(n), inverse_of(normal, free)};
    double explained = 0;
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) at.unknowns[i] += at.inverse[i * n + j] * normal.right[j];
      explained += at.unknowns[i] * normal.right[i];
    }
    if (!(explained > most * (1 + 1e-12)) || *std::min_element(at.unknowns.begin(), at.unknowns.end()) < 0) continue;
    most = explained;
    best = std::move(at);
  }
  require(!best.unknowns.empty(), "least squares: no unknown explains anything");
  return best;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/// Standard deviation of the normal distribution whose absolute values have the same median as those of `logs`. A fit
/// to few rows hides part of the scatter; the result is corrected for this.
double scale_of(const std::vector<double>& logs, size_t unknowns) {
  const auto n = static_cast<double>(logs.size());
  const double hidden = std::sqrt(n / std::max(1.0, n - static_cast<double>(unknowns)));
  return std::max(kFloor, 1.4826 * median(logs) * hidden);
}

class Fitter {
 public:
  Fitter(const Rows& rows, const std::vector<double>& targets)
      : rows_(rows), targets_(targets), given_(targets), logs_(rows.size()), trust_(rows.size(), 1.0) {}

  RatioFit run() {
    for (int i = 0; i < kPlain + kAbsolute + kBiweight; ++i) {
      step();
      if (i >= kPlain) weigh(i < kPlain + kAbsolute);
    }
    step();
    RatioFit out{solution_.unknowns, solution_.inverse, 0, 0};
    const auto positive = std::count_if(out.unknowns.begin(), out.unknowns.end(), [](double x) { return x > 0; });
    double squares = 0;
    double counted = 0;
    for (size_t r = 0; r < rows_.size(); ++r) {
      squares += trust_[r] * logs_[r] * logs_[r];
      counted += trust_[r];
    }
    out.free = static_cast<int>(std::lround(counted)) - static_cast<int>(positive);
    // The biweight also reduces the weight of rows that are not outliers, which makes the first estimate too small; the
    // median over all rows limits this error.
    if (out.free > 0) out.spread = std::max(std::sqrt(squares / out.free), scale_of(logs_, rows_[0].size()) / 2);
    return out;
  }

 private:
  /// Solves once with weights from the previous solution. The weighted residual, (given - target) / sqrt(given *
  /// target), equals the logarithm of the ratio up to terms of third order.
  void step() {
    std::vector<double> weights(rows_.size());
    for (size_t r = 0; r < rows_.size(); ++r) weights[r] = trust_[r] / (given_[r] * targets_[r]);
    solution_ = solve(normal_equations(rows_, targets_, weights));
    for (size_t r = 0; r < rows_.size(); ++r) {
      double sum = 0;
      for (size_t i = 0; i < rows_[r].size(); ++i) sum += rows_[r][i] * solution_.unknowns[i];
      // A row whose unknowns are all 0 would otherwise get an infinite weight.
      given_[r] = std::clamp(sum, 1e-6 * targets_[r], 1e6 * targets_[r]);
      logs_[r] = std::abs(std::log(given_[r] / targets_[r]));
    }
  }

  void weigh(bool absolute) {
    const double scale = scale_of(logs_, rows_[0].size());
    for (size_t r = 0; r < rows_.size(); ++r) {
      const double u = logs_[r] / (kCut * scale);
      const double biweight = u < 1 ? (1 - u * u) * (1 - u * u) : 0;
      trust_[r] = absolute ? 1 / std::max(logs_[r], 1e-3 * scale + kFloor) : std::max(biweight, kLeastWeight);
    }
  }

  const Rows& rows_;
  const std::vector<double>& targets_;
  std::vector<double> given_, logs_, trust_;
  Solution solution_;
};

}  // namespace

RatioFit fit_ratios(const Rows& rows, const std::vector<double>& targets) {
  require(!rows.empty() && rows.size() == targets.size(), "least squares: {} rows, {} targets", rows.size(),
          targets.size());
  require(rows[0].size() <= 8, "least squares: {} unknowns; at most 8", rows[0].size());
  return Fitter(rows, targets).run();
}

}  // namespace kilter::tune
