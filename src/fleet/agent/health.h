// What an agent measures about its machine between jobs, to show it to users and to compare it with the other agents of
// its class.
#pragma once

#include <mutex>
#include <optional>
#include <string>

namespace kilter::fleet {

/// Any thread may read the text; only one at a time may measure.
class Health {
 public:
  /// `root`: the root of the file system, for tests.
  explicit Health(std::string root = "/") : root_(std::move(root)) {}

  /// Measures again if the last time was at least `seconds` ago; takes about 30 ms.
  void measure(double seconds = 30);
  /// Returns a JSON object with the values that are known: `reference` (GFLOP/s of the reference kernel: multiply-adds
  /// on one thread), `drift` (the last one divided by the one before it), `load` (runnable processes over the last
  /// minute), `temperature` (the hottest sensor, degrees Celsius), and `throttled` (times that a core was slowed
  /// because of heat, since the system started).
  std::string text() const;

 private:
  std::string root_;
  double measured_ms_ = -1e12;
  std::optional<double> reference_;
  mutable std::mutex lock_;
  std::string text_ = "{}";
};

}  // namespace kilter::fleet
