// Threads that start windows of work together, for measurements. Not for running networks: they spin between windows.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace kilter {

/// A team of threads. The caller is thread 0. Each thread is pinned to its own CPU if there are enough. The caller's
/// affinity is restored at the end.
class Team {
 public:
  using Body = std::function<void(int thread)>;

  /// Throws usage when the system cannot start that many threads.
  explicit Team(int threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  struct Window {
    double seconds = 0;   ///< from the first thread's start to the last one's end
    double together = 1;  ///< shortest thread's time as a share of `seconds`: near 1 when all ran at the same time
    std::vector<double> threads;  ///< seconds of each
  };
  /// Runs body(0..threads-1), one call per thread. The body must not throw.
  const Window& run(const Body& body);
  /// Returns the last window.
  const Window& window() const { return window_; }
  int threads() const { return threads_; }

 private:
  struct alignas(128) Span {
    uint64_t start = 0, end = 0;
  };
  void work(int thread, int cpu);
  void stop();
  void take_part(int thread);

  const int threads_;
  std::vector<Span> spans_;
  Window window_;
  std::vector<std::thread> pool_;
  const Body* body_ = nullptr;
  std::atomic<int64_t> start_ = 0, arrived_ = 0, done_ = 0;
  bool pinned_ = false;
  cpu_set_t mask_{};  // the caller's own mask
};

}  // namespace kilter
