// Counters of one model, and their text for Prometheus.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace serve {

/// Any thread may count and read at any time.
class Metrics {
 public:
  void answered(int status) { ++(status < 300 ? answered_ : status < 500 ? refused_ : failed_); }
  void queued(int64_t requests) { queued_ = requests; }
  void waited(int64_t nanoseconds) { queue_ns_ += nanoseconds; }
  void ran(int64_t rows, int64_t nanoseconds);

  /// Appends the lines of all models, by name, to `out`.
  static void append(std::string& out, const std::vector<std::pair<std::string, const Metrics*>>& models);

 private:
  static constexpr std::array<int64_t, 8> kBounds = {1, 2, 4, 8, 16, 32, 64, 128};
  std::atomic<int64_t> answered_ = 0, refused_ = 0, failed_ = 0, queued_ = 0;
  std::atomic<int64_t> runs_ = 0, rows_ = 0, queue_ns_ = 0, compute_ns_ = 0;
  std::array<std::atomic<int64_t>, kBounds.size()> at_most_ = {};  ///< runs with at most as many rows as the bound
};

}  // namespace serve
