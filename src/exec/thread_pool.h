// A thread pool that runs the parallel iterations of one kernel at a time. Its threads spin for a bounded time, then
// park.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace kilter {

/// How often the threads of a pool took part in regions that had work for all of them.
struct Attendance {
  int64_t regions = 0;          ///< that had work for all threads
  std::vector<int64_t> missed;  ///< by thread: those that it was left out of, or that ended before it joined although
                                ///< it did not have to be woken

  /// What happened after `earlier`, an attendance of the same pool.
  Attendance since(const Attendance& earlier) const;
  /// By thread: the share of the regions that it took part in. Empty if there were too few to tell.
  std::vector<double> took_part() const;
};

class ThreadPool {
 public:
  /// `threads` includes the caller; 0 means default_threads(), or as many as there are `cpus`. Without `cpus`, no
  /// thread is bound to a CPU. With them, thread i runs only on the i-th CPU, starting again with the first after the
  /// last; the caller, which is thread 0, is not moved. Throws usage for a CPU that this process may not use.
  explicit ThreadPool(int threads = 0, const std::vector<int>& cpus = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;
  using Body = int32_t (*)(void* context, int64_t begin, int64_t end, int32_t worker);
  /// Runs `body` over [0, extent). The range is split into one contiguous, balanced range per thread (at most
  /// `max_threads` when > 0). Each thread runs its own range from the front in shrinking pieces, then takes pieces from
  /// the back of others' ranges, since cores may differ in speed. `body` is therefore called several times with one
  /// `worker`.
  ///
  /// Waits for all pieces. Returns the non-zero result that comes first in [0, extent), or throws the exception that
  /// was thrown there; the other pieces are still run. If a thread has not started when nothing else is left, the
  /// caller runs its range. A thread that is repeatedly late, for example because another process uses its CPU, is left
  /// out of calls for 0.2 to 100 ms.
  ///
  /// Calls from several threads take turns. Never allocates. An extent of 2^32 or more runs in the caller, as does
  /// everything in a child of fork(), where the pool's threads do not exist. Bodies run in the floating-point
  /// environment FloatEnvironment on the pool's threads, and in the caller's own environment in the caller.
  int32_t run(int64_t extent, int max_threads, Body body, void* context);
  /// Runs `body` once on each thread, with [i, i + 1) on the i-th, and returns what run() would. Must not be called
  /// from inside a body. Throws usage in a child of fork().
  int32_t run_on_each(Body body, void* context);
  /// Returns the attendance since the pool was created; calls of run_on_each() do not count. Waits for a run() of
  /// another thread. Must not be called from inside a body.
  Attendance attendance() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Returns KILTER_NUM_THREADS if set (1..1024, else usage error). Otherwise returns the CPUs that this process may use:
/// the smaller of the number in its affinity mask and its cgroup's quota (v1 or v2), at least 1.
int default_threads();

}  // namespace kilter
