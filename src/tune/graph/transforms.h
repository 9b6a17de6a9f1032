// What changes of layout cost: a model fitted to few measurements, so that nobody waits for all of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kilter::tune {

/// A level of the memory of the machine, the fastest first.
struct MemoryLevel {
  std::string name;
  double bytes = 0;     ///< it holds; infinity for the last
  bool shared = false;  ///< by all threads; else each has one of its own
};

/// One measured change of layout.
struct TransformSample {
  std::string kind;  ///< which layouts, e.g. "plain->c16"; any text
  int threads = 1;
  double bytes = 0;  ///< read and written
  double ms = 0;
};

struct TransformEstimate {
  double ms = 0;
  /// About one standard deviation, as a share of ms, and what the model is less sure of added: the estimate of a single
  /// measurement that no disturbance moved.
  double error = 0;
  std::string basis;  ///< "measured", or what was measured instead, in words
};

/// time = start + bytes / bandwidth of the level that the bytes fit into, for each kind and number of threads; deeper
/// levels are not faster. Fitted by least squares of the logarithms of ratios, in which outliers lose their weight. A
/// kind that was not measured is taken as the mean of all, a number of threads as the nearest, a level as its
/// neighbour; each makes the error larger.
class TransformModel {
 public:
  /// Throws bad_input for samples without positive finite bytes, time and threads; internal for levels that do not
  /// grow.
  TransformModel(std::string device, std::vector<MemoryLevel> levels, std::vector<TransformSample> samples);

  /// Nothing when there is no sample at all. `bytes` above 0.
  std::optional<TransformEstimate> predict(const std::string& kind, int threads, double bytes) const;

  const std::string& device() const { return device_; }
  const std::vector<TransformSample>& samples() const { return samples_; }
  /// This with more samples, fitted again.
  TransformModel with(const std::vector<TransformSample>& more) const;

  /// {"format": "kilter-transforms-1", "device", "levels", "samples"}: what it is fitted from.
  std::string text() const;
  /// Throws bad_input with `where` for any other form, and, naming both machines, when it was measured on another
  /// device.
  static TransformModel parse(std::string_view text, const std::string& where, const std::string& device);
  static TransformModel load(const std::filesystem::path& path, const std::string& device);
  void save(const std::filesystem::path& path) const;

 private:
  struct Fit {
    std::vector<size_t> levels;       ///< that were measured, ascending
    std::vector<double> terms;        ///< start in ms, then per byte what each of `levels` adds to the one before
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
