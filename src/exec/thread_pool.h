// Threads that run the parallel iterations of one kernel at a time: bounded spin, then park.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace kilter {

class ThreadPool {
 public:
  /// `threads` includes the caller; 0 takes default_threads().
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;
  using Body = int32_t (*)(void* context, int64_t begin, int64_t end, int32_t worker);
  /// Splits [0, extent) into one contiguous, balanced range per thread (at most `max_threads` when > 0). Each thread
  /// runs its range from the front in pieces that grow smaller, then pieces from the back of others' ranges, as a core
  /// may be slower than the next; so `body` is called several times with one `worker`. Waits for all. Answers the
  /// non-zero result that lies first in [0, extent), or throws what was thrown there; the other pieces are run all the
  /// same. A thread that has not come when nothing else is left takes no part: the caller runs its range, too. A thread
  /// that is late again and again, as one whose CPU another process uses, is left out of calls for 0.2 to 100 ms. Calls
  /// from several threads take turns. Never allocates. An extent of 2^32 or more runs in the caller, and so does
  /// everything in a child that fork() made, where the pool's threads do not exist. Bodies find the floating-point
  /// environment FloatEnvironment on the pool's threads, and the caller's own in the caller.
  int32_t run(int64_t extent, int max_threads, Body body, void* context);
  /// Runs `body` once on each thread, with [i, i + 1) on the i-th; answers as run() does. Not from inside of a body.
  /// Throws usage in a child that fork() made.
  int32_t run_on_each(Body body, void* context);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// KILTER_NUM_THREADS if set (1..1024, else usage error), else the CPUs this process may use: the smallest of its
/// affinity mask and its cgroup's quota (v1 and v2), at least 1.
int default_threads();

}  // namespace kilter
