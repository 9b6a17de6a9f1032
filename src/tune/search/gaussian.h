// Regression by a Gaussian process over a fixed set of points: what is expected of each, how sure that is, after every
// observation anew. Observations are added one by one; each costs (observations so far) x (points).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace kilter::tune {

/// y = prior + offset + slope x prior + share x tilt + f(x) + noise: an offset and a slope of their own for the prior,
/// a share of what it may be off by, f smooth over the standardised columns (Matern 5/2), in shares of one variance
/// that is estimated from the residuals.
struct GaussianShape {
  double length = 1;    ///< of f, in units of the root of the number of columns
  double noise = 0.01;  ///< variance of the noise of one sample over that of f
};

class Gaussian {
 public:
  /// `columns` of every point, row after row, and the mean that is expected without any observation. Columns that do
  /// not vary are left out; the others are standardised. `tilt`: how far another expectation lies from `prior`, which
  /// observations decide between; empty: there is none.
  Gaussian(size_t width, const std::vector<float>& columns, std::vector<double> prior, std::vector<double> tilt = {});

  size_t size() const { return prior_.size(); }
  size_t observations() const { return points_.size(); }

  /// Says that point `at` is or will be measured: it costs certainty only, until observe() gives its value. Each point
  /// once.
  void add(size_t at);
  bool added(size_t at) const { return place_[at] != kNone; }
  /// The value of a point that was added, the mean of so many samples; may be given again.
  void observe(size_t at, double y, double samples = 1);

  /// Estimates the shape anew by the likelihood of what was observed, and starts over with it.
  void fit_shape();

  struct Belief {
    double mean = 0, deviation = 0;
  };
  Belief belief(size_t at) const;

 private:
  static constexpr size_t kNone = static_cast<size_t>(-1);

  double covariance(size_t a, size_t b) const;
  /// Of offset, slope and tilt: what no shape changes.
  double linear_covariance(size_t a, size_t b) const;
  double distance2(size_t a, size_t b) const;
  /// Variance of the noise of a mean of so many samples, in shares of f's.
  double noise_of(double samples, const GaussianShape& shape) const;
  void extend(size_t at);
  void shift_noise(size_t place, double by);
  void refresh() const;
  double log_likelihood(const GaussianShape& shape, std::span<const size_t> known) const;

  size_t width_ = 0;  ///< of the columns that vary
  std::vector<float> x_;
  std::vector<double> prior_, tilt_;
  double prior_mean_ = 0;
  GaussianShape shape_;
  std::vector<size_t> points_;               ///< added, in order
  std::vector<size_t> place_;                ///< by point: its place in points_
  std::vector<double> y_;                    ///< by place: residual; NaN where it is not observed
  std::vector<double> samples_;              ///< by place
  std::vector<std::vector<double>> lower_;   ///< Cholesky factor of the covariance of points_, by row
  std::vector<std::vector<double>> solved_;  ///< by place: its row of lower^-1 K(points_, all)
  std::vector<double> variance_;             ///< by point, in shares of scale_
  mutable std::vector<double> mean_;         ///< by point: expected residual
  mutable double scale_ = 1;                 ///< estimated variance
  mutable bool stale_ = true;                ///< mean_ and scale_
};

}  // namespace kilter::tune
