// The cost of layout changes: a model fitted to a few measurements, so that not every change has to be measured.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kilter::tune {

/// One level of the machine's memory hierarchy, fastest first.
struct MemoryLevel {
  std::string name;
  double bytes = 0;     ///< capacity; infinity for the last level
  bool shared = false;  ///< shared by all threads; otherwise each thread has its own
};

/// One measured layout change.
struct TransformSample {
  std::string kind;  ///< the layouts, such as "plain->c16"; any text
  int threads = 1;
  double bytes = 0;  ///< bytes read and written
  double ms = 0;
};

struct TransformEstimate {
  double ms = 0;
  /// About one standard deviation of a single undisturbed measurement, as a share of ms, plus extra uncertainty for
  /// cases that the model knows less well.
  double error = 0;
  std::string basis;  ///< "measured", or the measurements used instead, in words
};

/// time = start + bytes / bandwidth of the level that the bytes fit into, for each kind and number of threads; deeper
/// levels are never faster. The fit is by least squares of the logarithms of ratios and gives outliers little weight. A
/// kind without measurements uses the fit to all kinds together, a number of threads without any uses the nearest
/// measured number, and a level without any uses a different level. Each of these increases the error.
class TransformModel {
 public:
  /// Throws bad_input for samples without positive, finite bytes, time and threads; internal for levels that do not
  /// increase.
  TransformModel(std::string device, std::vector<MemoryLevel> levels, std::vector<TransformSample> samples);

  /// Empty if there are no samples. `bytes` must be above 0.
  std::optional<TransformEstimate> predict(const std::string& kind, int threads, double bytes) const;

  const std::string& device() const { return device_; }
  const std::vector<TransformSample>& samples() const { return samples_; }
  /// Returns the model fitted again with additional samples.
  TransformModel with(const std::vector<TransformSample>& more) const;

  /// {"format": "kilter-transforms-1", "device", "levels", "samples"}: the data that the model is fitted to.
  std::string text() const;
  /// Throws bad_input with `where` for any other format, and if the model was measured on a different device, in which
  /// case the message names both.
  static TransformModel parse(std::string_view text, const std::string& where, const std::string& device);
  static TransformModel load(const std::filesystem::path& path, const std::string& device);
  void save(const std::filesystem::path& path) const;

 private:
  struct Fit {
    std::vector<size_t> levels;  ///< levels that were measured, ascending
    /// Start in ms, then the time per byte that each of `levels` adds to the previous one.
    std::vector<double> terms;
    std::vector<double> uncertainty;  ///< inverse of the normal equations, terms x terms
    double spread = 0;                ///< standard deviation of relative errors
  };
  using Key = std::pair<std::string, int>;

  size_t level_of(double bytes, int threads) const;
  static std::vector<double> terms_of(const Fit& fit, size_t level, double bytes);
  Fit fit(const std::vector<TransformSample>& samples) const;
  TransformEstimate estimate(const Fit& fit, int threads, double bytes) const;

  std::string device_;
  std::vector<MemoryLevel> levels_;
  std::vector<TransformSample> samples_;
  std::map<Key, Fit> fits_;  ///< kind "" is all kinds together
};

}  // namespace kilter::tune
