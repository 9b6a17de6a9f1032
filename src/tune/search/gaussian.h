// Gaussian process regression over a fixed set of points: the expected value of each point and its uncertainty, updated
// after every observation. The time to add one is proportional to (observations so far) x (points).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace kilter::tune {

/// y = prior + offset + slope x prior + share x tilt + f(x) + noise. The offset and the slope correct the prior, the
/// share weighs the prior's possible error (tilt), and f is smooth over the standardised columns (Matern 5/2).
/// Variances are relative to one variance that is estimated from the residuals.
struct GaussianShape {
  double length = 1;    ///< of f, in units of the square root of the number of columns
  double noise = 0.01;  ///< variance of one sample's noise over f's variance
};

class Gaussian {
 public:
  /// `columns` contains the columns of every point, row by row; `prior` is the mean expected without any observation.
  /// Columns that do not vary are left out; the others are standardised. `tilt` is the difference between a second
  /// expectation and `prior`; the observations decide between the two. It is empty if there is only one.
  Gaussian(size_t width, const std::vector<float>& columns, std::vector<double> prior, std::vector<double> tilt = {});

  size_t size() const { return prior_.size(); }
  size_t observations() const { return points_.size(); }

  /// Declares that point `at` has been or will be measured. This only reduces uncertainty until observe() sets its
  /// value. Call it at most once for each point.
  void add(size_t at);
  bool added(size_t at) const { return place_[at] != kNone; }
  /// Sets the value of an added point, the mean of `samples` samples. May be called again.
  void observe(size_t at, double y, double samples = 1);

  /// Re-estimates the shape from the likelihood of the observations, and recomputes everything with it.
  void fit_shape();

  struct Belief {
    double mean = 0, deviation = 0;
  };
  Belief belief(size_t at) const;

 private:
  static constexpr size_t kNone = static_cast<size_t>(-1);

  double covariance(size_t a, size_t b) const;
  /// Covariance from offset, slope and tilt, which does not depend on the shape.
  double linear_covariance(size_t a, size_t b) const;
  double distance2(size_t a, size_t b) const;
  /// Noise variance of a mean of `samples` samples, relative to f's variance.
  double noise_of(double samples, const GaussianShape& shape) const;
  void extend(size_t at);
  void shift_noise(size_t place, double by);
  void refresh() const;
  double log_likelihood(const GaussianShape& shape, std::span<const size_t> known) const;

  size_t width_ = 0;  ///< number of columns that vary
  std::vector<float> x_;
  std::vector<double> prior_, tilt_;
  double prior_mean_ = 0;
  GaussianShape shape_;
  std::vector<size_t> points_;               ///< in the order of add()
  std::vector<size_t> place_;                ///< by point: its index in points_
  std::vector<double> y_;                    ///< by place: residual; NaN if not observed
  std::vector<double> samples_;              ///< by place
  std::vector<std::vector<double>> lower_;   ///< Cholesky factor of the covariance of points_, by row
  std::vector<std::vector<double>> solved_;  ///< by place: its row of lower^-1 K(points_, all)
  std::vector<double> variance_;             ///< by point, relative to scale_
  mutable std::vector<double> mean_;         ///< by point: expected residual
  mutable double scale_ = 1;                 ///< estimated variance
  mutable bool stale_ = true;                ///< whether mean_ and scale_ need an update
};

}  // namespace kilter::tune
