#include "tune/search/gaussian.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace kilter::tune {
namespace {

constexpr double kOffset = 1;      ///< variance of the offset, relative to f's
constexpr double kSlope = 0.1;     ///< variance of the slope
constexpr double kTilt = 16;       ///< variance of the tilt's share
constexpr double kOwn = 0.1;       ///< share of the noise that is fixed for a point: more samples do not reduce it
constexpr double kLittle = 1e-8;   ///< added to the diagonal for numerical stability
constexpr double kExpected = 0.3;  ///< prior error of analytic models, in log2
constexpr double kWorth = 4;       ///< weight of this prior, as a number of observations

double matern(double distance2, double length2) {
  const double r = std::sqrt(5 * distance2 / length2);
  return (1 + r + r * r / 3) * std::exp(-r);
}

}  // namespace

Gaussian::Gaussian(size_t width, const std::vector<float>& columns, std::vector<double> prior, std::vector<double> tilt)
    : prior_(std::move(prior)), tilt_(std::move(tilt)) {
  const size_t points = prior_.size();
  if (tilt_.empty()) tilt_.assign(points, 0);
  require(tilt_.size() == points, "a tilt of {} points for {}", tilt_.size(), points);
  require(columns.size() == points * width, "{} values for {} points of {} columns", columns.size(), points, width);
  std::vector<std::vector<float>> kept;
  for (size_t c = 0; c < width; ++c) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < points; ++i) sum += static_cast<double>(columns[i * width + c]);
    const double mean = points == 0 ? 0 : sum / static_cast<double>(points);
    for (size_t i = 0; i < points; ++i) squares += std::pow(static_cast<double>(columns[i * width + c]) - mean, 2);
    const double deviation = points == 0 ? 0 : std::sqrt(squares / static_cast<double>(points));
    if (!(deviation > 1e-6)) continue;
    std::vector<float> column(points);
    for (size_t i = 0; i < points; ++i)
      column[i] = static_cast<float>((static_cast<double>(columns[i * width + c]) - mean) / deviation);
    kept.push_back(std::move(column));
  }
  width_ = kept.size();
  x_.resize(points * width_);
  for (size_t c = 0; c < width_; ++c) {
    for (size_t i = 0; i < points; ++i) x_[i * width_ + c] = kept[c][i];
  }
  for (const double p : prior_) prior_mean_ += p / static_cast<double>(points);
  place_.assign(points, kNone);
  mean_.assign(points, 0);
  variance_.resize(points);
  for (size_t i = 0; i < points; ++i) variance_[i] = covariance(i, i);
}

double Gaussian::distance2(size_t a, size_t b) const {
  const float* p = x_.data() + a * width_;
  const float* q = x_.data() + b * width_;
  float sum = 0;
  for (size_t c = 0; c < width_; ++c) sum += (p[c] - q[c]) * (p[c] - q[c]);
  return static_cast<double>(sum);
}

double Gaussian::covariance(size_t a, size_t b) const {
  const double length2 = shape_.length * shape_.length * static_cast<double>(std::max<size_t>(width_, 1));
  return matern(distance2(a, b), length2) + linear_covariance(a, b);
}

double Gaussian::linear_covariance(size_t a, size_t b) const {
  return kOffset + kSlope * (prior_[a] - prior_mean_) * (prior_[b] - prior_mean_) + kTilt * tilt_[a] * tilt_[b];
}

void Gaussian::add(size_t at) {
  require(!added(at), "a point was added twice");
  place_[at] = points_.size();
  points_.push_back(at);
  y_.push_back(std::numeric_limits<double>::quiet_NaN());
  samples_.push_back(1);
  extend(at);
}

void Gaussian::observe(size_t at, double y, double samples) {
  require(added(at), "a point was observed before it was added");
  const size_t place = place_[at];
  y_[place] = y - prior_[at];
  stale_ = true;
  if (samples == samples_[place]) return;
  shift_noise(place, noise_of(samples, shape_) - noise_of(samples_[place], shape_));
  samples_[place] = samples;
}

double Gaussian::noise_of(double samples, const GaussianShape& shape) const {
  return shape.noise * (kOwn + (1 - kOwn) / samples);
}

/// Changes the variance of one observation by a rank-one Cholesky update, which also rotates the systems solved with
/// the factor.
void Gaussian::shift_noise(size_t place, double by) {
  const double sign = by < 0 ? -1 : 1;
  std::vector<double> v(lower_.size()), rest(size());
  v[place] = std::sqrt(std::abs(by));
  for (size_t i = place; i < lower_.size(); ++i) {
    double& diagonal = lower_[i][i];
    const double turned = std::sqrt(std::max(diagonal * diagonal + sign * v[i] * v[i], kLittle));
    const double c = turned / diagonal, s = v[i] / diagonal;
    diagonal = turned;
    const auto turn = [&](double& own, double& other) {
      own = (own + sign * s * other) / c;
      other = c * other - s * own;
    };
    for (size_t k = i + 1; k < lower_.size(); ++k) turn(lower_[k][i], v[k]);
    for (size_t j = 0; j < size(); ++j) turn(solved_[i][j], rest[j]);
  }
  for (size_t j = 0; j < size(); ++j) variance_[j] = std::max(variance_[j] + sign * rest[j] * rest[j], 0.0);
}

/// Adds one row to the factor and to the systems solved with it.
void Gaussian::extend(size_t at) {
  const size_t n = lower_.size();
  std::vector<double> row(n + 1);
  double rest = covariance(at, at) + noise_of(samples_[n], shape_) + kLittle;
  for (size_t i = 0; i < n; ++i) {
    row[i] = solved_[i][at];
    rest -= row[i] * row[i];
  }
  row[n] = std::sqrt(std::max(rest, kLittle));
  std::vector<double> solved(size());
  for (size_t j = 0; j < size(); ++j) solved[j] = covariance(at, j);
  for (size_t i = 0; i < n; ++i) {
    const double factor = row[i];
    const std::vector<double>& other = solved_[i];
    for (size_t j = 0; j < size(); ++j) solved[j] -= factor * other[j];
  }
  for (size_t j = 0; j < size(); ++j) {
    solved[j] /= row[n];
    variance_[j] = std::max(variance_[j] - solved[j] * solved[j], 0.0);
  }
  lower_.push_back(std::move(row));
  solved_.push_back(std::move(solved));
}

/// Computes means from the residuals. A point that has not been observed is assumed to have its expected value, which
/// leaves the others unchanged.
void Gaussian::refresh() const {
  if (!stale_) return;
  stale_ = false;
  std::fill(mean_.begin(), mean_.end(), 0.0);
  double squares = 0;
  size_t known = 0;
  std::vector<double> weight(points_.size());
  for (size_t i = 0; i < points_.size(); ++i) {
    double expected = 0;
    for (size_t k = 0; k < i; ++k) expected += lower_[i][k] * weight[k];
    weight[i] = std::isnan(y_[i]) ? 0 : (y_[i] - expected) / lower_[i][i];
    if (std::isnan(y_[i])) continue;
    squares += weight[i] * weight[i];
    ++known;
    for (size_t j = 0; j < size(); ++j) mean_[j] += weight[i] * solved_[i][j];
  }
  scale_ = (kWorth * kExpected * kExpected + squares) / (kWorth + static_cast<double>(known));
}

Gaussian::Belief Gaussian::belief(size_t at) const {
  refresh();
  return {prior_[at] + mean_[at], std::sqrt(scale_ * variance_[at])};
}

double Gaussian::log_likelihood(const GaussianShape& shape, std::span<const size_t> known) const {
  const size_t n = known.size();
  const double length2 = shape.length * shape.length * static_cast<double>(std::max<size_t>(width_, 1));
  std::vector<double> l(n * n);
  double squares = 0, log_det = 0;
  std::vector<double> w(n);
  for (size_t i = 0; i < n; ++i) {
    const size_t a = points_[known[i]];
    double y = y_[known[i]];
    for (size_t j = 0; j <= i; ++j) {
      const size_t b = points_[known[j]];
      double v = matern(distance2(a, b), length2) + linear_covariance(a, b) +
                 (i == j ? noise_of(samples_[known[i]], shape) + kLittle : 0);
      for (size_t k = 0; k < j; ++k) v -= l[i * n + k] * l[j * n + k];
      l[i * n + j] = i == j ? std::sqrt(std::max(v, kLittle)) : v / l[j * n + j];
    }
    for (size_t k = 0; k < i; ++k) y -= l[i * n + k] * w[k];
    w[i] = y / l[i * n + i];
    squares += w[i] * w[i];
    log_det += std::log(l[i * n + i]);
  }
  // The variance is integrated out under its prior.
  const double worth = kWorth + static_cast<double>(n);
  return -log_det - worth / 2 * std::log(kWorth * kExpected * kExpected + squares);
}

void Gaussian::fit_shape() {
  constexpr size_t kMost = 128;  // observations used to estimate the shape
  std::vector<size_t> known;
  for (size_t i = y_.size(); i-- > 0 && known.size() < kMost;) {
    if (!std::isnan(y_[i])) known.push_back(i);
  }
  if (known.size() < 4) return;
  GaussianShape best = shape_;
  double most = log_likelihood(best, known);
  for (const double length : {0.25, 0.5, 1.0, 2.0, 4.0}) {
    for (const double noise : {0.0003, 0.003, 0.03, 0.3}) {
      const GaussianShape shape{length, noise};
      const double likelihood = log_likelihood(shape, known);
      if (likelihood > most) best = shape, most = likelihood;
    }
  }
  if (best.length == shape_.length && best.noise == shape_.noise) return;
  shape_ = best;
  lower_.clear(), solved_.clear();
  for (size_t i = 0; i < size(); ++i) variance_[i] = covariance(i, i);
  for (const size_t at : points_) extend(at);
  stale_ = true;
}

}  // namespace kilter::tune
