#include "exec/thread_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "../base/error_of.h"
#include "allocation_count.h"
#include "base/error.h"
#include "base/pause.h"
#include "exec/work_range.h"

namespace kilter {
namespace {

/// Calls a lambda (begin, end, worker) -> int32.
template <class F>
int32_t call(void* context, int64_t begin, int64_t end, int32_t worker) {
  return (*static_cast<F*>(context))(begin, end, worker);
}
template <class F>
int32_t run(ThreadPool& pool, int64_t extent, int max_threads, F f) {
  return pool.run(extent, max_threads, call<F>, &f);
}

struct Range {
  int64_t begin, end;
  int32_t worker;
};

std::vector<Range> ranges(ThreadPool& pool, int64_t extent, int max_threads) {
  std::mutex mutex;
  std::vector<Range> seen;
  EXPECT_EQ(run(pool, extent, max_threads,
                [&](int64_t begin, int64_t end, int32_t worker) {
                  const std::lock_guard lock(mutex);
                  seen.push_back({begin, end, worker});
                  return 0;
                }),
            0);
  std::sort(seen.begin(), seen.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  return seen;
}

TEST(ThreadPool, SlowWorkerIsSkippedForAWhile) {
  ThreadPool pool(2);
  std::atomic<int> of_worker{0};
  const auto pieces = [&](std::chrono::milliseconds each) {
    of_worker = 0;
    EXPECT_EQ(run(pool, 64, 0,
                  [&](int64_t, int64_t, int32_t worker) {
                    of_worker += worker;
                    std::this_thread::sleep_for(each);
                    return 0;
                  }),
              0);
    return of_worker.load();
  };
  // The caller runs out of work while the worker sleeps, as if its CPU were busy.
  for (int i = 0; i < 2; ++i) {
    std::atomic<bool> came{false};
    EXPECT_EQ(run(pool, 2, 0,
                  [&](int64_t, int64_t, int32_t worker) {
                    if (worker == 1) came = true;
                    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
                    while (!came && std::chrono::steady_clock::now() < end) std::this_thread::yield();
                    if (worker == 1) std::this_thread::sleep_for(std::chrono::milliseconds(40));
                    return 0;
                  }),
              0);
    ASSERT_TRUE(came);
  }
  EXPECT_EQ(pieces(std::chrono::milliseconds(0)), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  EXPECT_GT(pieces(std::chrono::milliseconds(5)), 0);
}

TEST(ThreadPool, AttendanceCountsMissedRegions) {
  ThreadPool pool(2);
  const auto region = [&](int64_t extent, int max_threads, int64_t worker_ms) {
    std::atomic<bool> came{false};
    run(pool, extent, max_threads, [&](int64_t, int64_t, int32_t worker) {
      if (worker == 1) came = true;
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (worker_ms > 0 && !came && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      if (worker == 1) std::this_thread::sleep_for(std::chrono::milliseconds(worker_ms));
      return 0;
    });
  };
  region(1, 0, 0), region(8, 1, 0);
  EXPECT_EQ(pool.attendance().regions, 0) << "one thread was enough";
  for (int i = 0; i < 2; ++i) region(2, 0, 40);  // the worker is late, so that it is left out from now on
  const Attendance late = pool.attendance();
  EXPECT_EQ(late.regions, 2);
  EXPECT_EQ(late.missed, (std::vector<int64_t>{0, 0})) << "it came";
  EXPECT_TRUE(late.took_part().empty()) << "too few regions";
  for (int i = 0; i < 12; ++i) region(2, 0, 0);
  const Attendance after = pool.attendance().since(late);
  EXPECT_EQ(after.regions, 12);
  EXPECT_EQ(after.missed, (std::vector<int64_t>{0, 12}));
  EXPECT_EQ(after.took_part(), (std::vector<double>{1, 0}));
  EXPECT_EQ(pool.run_on_each([](void*, int64_t, int64_t, int32_t) -> int32_t { return 0; }, nullptr), 0);
  EXPECT_EQ(pool.attendance().regions, 14) << "run_on_each() does not count";
}

TEST(ThreadPool, EveryIndexRunsOnceOnNoMoreThreadsThanAllowed) {
  for (int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t extent : {1, 2, 3, 6, 7, 8, 100, 1001}) {
      for (int max_threads : {0, 1, 2, 5, 100}) {
        ThreadPool fresh(threads);  // a new pool leaves out no worker
        const auto seen = ranges(fresh, extent, max_threads);
        const int64_t limit = max_threads > 0 ? std::min(threads, max_threads) : threads;
        const int64_t parts = std::min(limit, extent);
        int64_t at = 0;
        for (const Range& piece : seen) {
          EXPECT_EQ(piece.begin, at);
          EXPECT_LT(piece.worker, parts);
          EXPECT_LE(piece.end - piece.begin, parts == 1 ? extent : extent / parts / 2 + 1);
          at = piece.end;
        }
        EXPECT_EQ(at, extent);
      }
    }
  }
}

/// While one thread is stuck in its first piece, the other thread must run the rest of its range.
TEST(ThreadPool, OthersFinishTheRangeOfASlowThread) {
  constexpr int64_t kExtent = 64, kFirstPiece = 16;
  ThreadPool pool(2);
  for (int32_t slow : {0, 1}) {
    std::atomic<int64_t> quick{0};
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    run(pool, kExtent, 0, [&](int64_t begin, int64_t end, int32_t worker) {
      if (worker != slow) quick += end - begin;
      while (worker == slow && quick < kExtent - kFirstPiece && std::chrono::steady_clock::now() < deadline)
        std::this_thread::yield();
      return 0;
    });
    EXPECT_GE(quick, kExtent - kFirstPiece) << "thread " << slow << " was slow";
  }
}

TEST(WorkRange, HandsOutEachIndexOnce) {
  WorkRange range;
  constexpr int64_t kFirst = WorkRange::kMost - 100;
  range.reset(kFirst, WorkRange::kMost);
  std::vector<int> times(100);
  for (int turn = 0;; ++turn) {
    const Piece p = turn % 3 == 2 ? range.take_back() : range.take_front();
    if (p.empty()) break;
    EXPECT_LE(p.end - p.begin, 50);
    for (int64_t i = p.begin; i < p.end; ++i) ++times.at(static_cast<size_t>(i - kFirst));
  }
  EXPECT_THAT(times, testing::Each(1));
}

TEST(ThreadPool, RunsOnceOnEachThread) {
  ThreadPool pool(3);
  for (int i = 0; i < 50; ++i) {
    std::mutex mutex;
    std::set<std::thread::id> ids;
    std::vector<Range> seen;
    auto body = [&](int64_t begin, int64_t end, int32_t worker) {
      const std::lock_guard lock(mutex);
      ids.insert(std::this_thread::get_id());
      seen.push_back({begin, end, worker});
      return worker == 2 ? 7 : 0;
    };
    EXPECT_EQ(pool.run_on_each(call<decltype(body)>, &body), 7);
    EXPECT_EQ(ids.size(), 3U);
    ASSERT_EQ(seen.size(), 3U);
    for (const Range& r : seen) EXPECT_EQ(r.end, r.begin + 1);
  }
}

TEST(ThreadPool, NothingToDo) {
  ThreadPool pool(3);
  EXPECT_TRUE(ranges(pool, 0, 0).empty());
  EXPECT_TRUE(ranges(pool, -4, 0).empty());
}

TEST(ThreadPool, CallerRunsTheFirstRange) {
  ThreadPool pool(2);
  const auto caller = std::this_thread::get_id();
  run(pool, 2, 0, [&](int64_t, int64_t, int32_t worker) {
    EXPECT_EQ(std::this_thread::get_id() == caller, worker == 0);
    return 0;
  });
}

TEST(ThreadPool, ReturnsFirstFailureInRangeOrder) {
  ThreadPool pool(4);
  EXPECT_EQ(
      run(pool, 4, 0, [](int64_t begin, int64_t, int32_t) { return begin >= 2 ? static_cast<int32_t>(begin) : 0; }), 2);
  EXPECT_EQ(run(pool, 4, 0, [](int64_t, int64_t, int32_t) { return 0; }), 0);
}

TEST(ThreadPool, LowestFailureWinsOnAnyThread) {
  ThreadPool pool(3);
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(run(pool, 90, 0,
                  [](int64_t begin, int64_t end, int32_t) {
                    return end <= 20 ? 0 : static_cast<int32_t>(std::max<int64_t>(begin, 20));
                  }),
              20);
  }
}

TEST(ThreadPool, ExceptionsReachTheCallerAfterAllRangesEnded) {
  ThreadPool pool(3);
  std::atomic<int> ended{0};
  for (int64_t thrower : {0, 2}) {
    ended = 0;
    EXPECT_THROW(run(pool, 3, 0,
                     [&](int64_t begin, int64_t, int32_t) -> int32_t {
                       ++ended;
                       if (begin == thrower) throw std::runtime_error("body");
                       return 0;
                     }),
                 std::runtime_error);
    EXPECT_EQ(ended, 3);
  }
  EXPECT_EQ(ranges(pool, 3, 0).size(), 3U) << "the pool works on";
}

TEST(ThreadPool, WakesParkedWorkers) {
  for (const char* spin : {"0", "1", "2000"}) {
    setenv("KILTER_SPIN_US", spin, 1);
    ThreadPool pool(3);
    for (int i = 0; i < 20; ++i) {
      if (i % 4 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      std::atomic<int> ran{0};
      auto body = [&](int64_t begin, int64_t, int32_t worker) {
        EXPECT_EQ(begin, worker);
        ++ran;
        return 0;
      };
      EXPECT_EQ(pool.run_on_each(call<decltype(body)>, &body), 0);  // leaves out no worker
      EXPECT_EQ(ran, 3);
      EXPECT_EQ(ranges(pool, 3, 0).back().end, 3);
    }
  }
  unsetenv("KILTER_SPIN_US");
}

TEST(ThreadPool, ManyShortRegionsOfChangingWidth) {
  ThreadPool pool(4);
  std::atomic<int64_t> sum{0};
  int64_t expected = 0;
  for (int64_t i = 0; i < 5000; ++i) {
    const int64_t extent = i % 9;
    expected += extent;
    run(pool, extent, static_cast<int>(i % 5), [&](int64_t begin, int64_t end, int32_t) {
      sum += end - begin;
      return 0;
    });
  }
  EXPECT_EQ(sum, expected);
}

TEST(ThreadPool, CallersTakeTurns) {
  ThreadPool pool(3);
  constexpr int kCallers = 4;
  std::atomic<int> inside{0};
  std::vector<int64_t> sums(kCallers);
  std::vector<std::thread> callers;
  for (int c = 0; c < kCallers; ++c) {
    callers.emplace_back([&, c] {
      for (int i = 0; i < 300; ++i) {
        std::atomic<int64_t> sum{0};
        run(pool, 3, 0, [&](int64_t begin, int64_t end, int32_t) {
          if (++inside > 3) ADD_FAILURE() << "two regions at once";
          for (int64_t at = begin; at < end; ++at) sum += at;
          --inside;
          return 0;
        });
        sums[static_cast<size_t>(c)] += sum;
      }
    });
  }
  for (auto& caller : callers) caller.join();
  for (int64_t sum : sums) EXPECT_EQ(sum, 300 * 3);
}

TEST(ThreadPool, RegionInsideARegionRunsInline) {
  ThreadPool pool(3);
  std::atomic<int> inner{0};
  run(pool, 3, 0, [&](int64_t, int64_t, int32_t) {
    return run(pool, 5, 0, [&](int64_t begin, int64_t end, int32_t worker) {
      EXPECT_EQ(begin, 0);
      EXPECT_EQ(end, 5);
      EXPECT_EQ(worker, 0);
      ++inner;
      return 0;
    });
  });
  EXPECT_EQ(inner, 3);
}

TEST(ThreadPool, TwoPoolsNest) {
  ThreadPool outer(2);
  ThreadPool inner(2);
  std::atomic<int64_t> sum{0};
  run(outer, 2, 0, [&](int64_t, int64_t, int32_t) {
    return run(inner, 2, 0, [&](int64_t, int64_t, int32_t) {
      ++sum;
      return 0;
    });
  });
  EXPECT_EQ(sum, 4);
}

TEST(ThreadPool, StartsAndEndsManyTimes) {
  for (int i = 0; i < 100; ++i) {
    ThreadPool pool(1 + i % 4);
    if (i % 3 == 0) ranges(pool, 4, 0);
  }
}

/// Keeps one thread in a signal handler, as if another process were using its CPU.
class Stopped {
 public:
  explicit Stopped(pthread_t thread) {
    inside = false;
    released = false;
    // Stays installed: a signal may be delivered after its Stopped has ended.
    struct sigaction action{};
    action.sa_handler = [](int) {
      if (released) return;
      inside = true;
      while (!released) pause_cpu();
    };
    sigaction(SIGUSR1, &action, nullptr);
    // ThreadSanitizer delays a handler until the thread's next atomic operation. Only a further signal reaches a thread
    // that went to sleep in the meantime.
    while (!inside) {
      pthread_kill(thread, SIGUSR1);
      const auto again = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
      while (!inside && std::chrono::steady_clock::now() < again) pause_cpu();
    }
  }
  ~Stopped() { released = true; }
  Stopped(const Stopped&) = delete;
  Stopped& operator=(const Stopped&) = delete;

 private:
  static inline std::atomic<bool> released{true}, inside{false};
};

std::vector<pthread_t> threads_of(ThreadPool& pool) {
  std::vector<pthread_t> threads(static_cast<size_t>(pool.threads()));
  auto body = [&](int64_t begin, int64_t, int32_t) {
    threads[static_cast<size_t>(begin)] = pthread_self();
    return 0;
  };
  pool.run_on_each(call<decltype(body)>, &body);
  return threads;
}

TEST(ThreadPool, RegionDoesNotWaitForAStoppedThread) {
  for (const int threads : {2, 3, 12}) {
    ThreadPool pool(threads);
    const std::vector<pthread_t> all = threads_of(pool);
    const Stopped stopped(all.back());
    auto regions = std::async(std::launch::async, [&] {
      for (int64_t extent : {1, 2, 12, 100, 1000}) {
        int64_t at = 0;
        for (const Range& piece : ranges(pool, extent, 0)) {
          EXPECT_EQ(piece.begin, at);
          EXPECT_NE(piece.worker, threads - 1) << "that thread is stopped";
          at = piece.end;
        }
        EXPECT_EQ(at, extent);
      }
    });
    ASSERT_EQ(regions.wait_for(std::chrono::seconds(60)), std::future_status::ready) << threads << " threads";
  }
}

TEST(ThreadPool, LateThreadJoinsTheNextRegion) {
  ThreadPool pool(2);
  const std::vector<pthread_t> all = threads_of(pool);
  for (int i = 0; i < 20; ++i) {
    {
      const Stopped stopped(all[1]);
      EXPECT_EQ(std::async(std::launch::async, [&] { return ranges(pool, 8, 0).front().worker; }).get(), 0);
    }
    EXPECT_EQ(threads_of(pool)[1], all[1]);
  }
}

/// Returns the exit code of `body` in a child of fork(), which is killed after a minute.
template <class F>
int in_a_child(F body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

TEST(ThreadPool, ForkedChildRunsEverythingInOneThread) {
  auto pool = std::make_unique<ThreadPool>(3);
  ranges(*pool, 9, 0);
  const auto sum_of_ten = [&] {
    int64_t sum = 0;  // not atomic: one thread runs everything
    run(*pool, 10, 0, [&](int64_t begin, int64_t end, int32_t) {
      for (int64_t i = begin; i < end; ++i) sum += i;
      return 0;
    });
    return sum;
  };
  EXPECT_EQ(in_a_child([&] {
              const bool right = sum_of_ten() == 45;
              auto nothing = [](int64_t, int64_t, int32_t) { return 0; };
              const std::string refused = error_of([&] { pool->run_on_each(call<decltype(nothing)>, &nothing); });
              pool.reset();
              return right && refused ==
                                  "the 3 threads of this pool stayed in the process that called fork(); create a new "
                                  "pool in the child";
            }),
            0);
  EXPECT_EQ(ranges(*pool, 9, 0).back().end, 9) << "the parent's pool works on";
}

TEST(ThreadPool, WorkersHaveTheDefaultFloatEnvironment) {
  std::fenv_t before;
  fegetenv(&before);
  fesetround(FE_UPWARD);
  feenableexcept(FE_INVALID | FE_DIVBYZERO);
  {
    ThreadPool pool(3);
    std::atomic<int> wrong{0};
    auto body = [&](int64_t begin, int64_t, int32_t) {
      volatile float zero = 0.0F;
      if (begin == 0) return 0;  // the caller's own thread
      volatile float nan = zero / zero;
      if (fegetround() != FE_TONEAREST || nan == nan) ++wrong;
      return 0;
    };
    pool.run_on_each(call<decltype(body)>, &body);
    EXPECT_EQ(wrong, 0);
  }
  fesetenv(&before);
}

TEST(ThreadPool, RunningOutOfMemoryWhileThreadsStartIsAnError) {
  int64_t failed = 0;
  for (int64_t at = 1; allocation_to_fail() == 0; ++at) {
    fail_allocation(at);
    try {
      ThreadPool pool(4);
    } catch (const std::bad_alloc&) {
      ++failed;
    }
  }
  fail_allocation(0);
  EXPECT_GE(failed, 3) << "each thread needs memory of its own";
  ThreadPool pool(4);
  EXPECT_EQ(ranges(pool, 100, 0).back().end, 100);
}

TEST(ThreadPool, IllegalSizesAreUsageErrors) {
  for (int threads : {-1, 1025}) {
    try {
      ThreadPool pool(threads);
      FAIL() << threads;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      EXPECT_THAT(e.message(), testing::HasSubstr(std::to_string(threads)));
      EXPECT_THAT(e.message(), testing::HasSubstr("1 to 1024"));
    }
  }
}

/// Workers that fall asleep while the caller takes back their parts must wake up for later parts and when the pool
/// ends.
TEST(ThreadPool, SleepingWorkersWakeForWorkAndShutdown) {
  constexpr int kPools = 1000, kRegions = 12;
  const int threads = static_cast<int>(std::thread::hardware_concurrency()) * 3 + 1;  // too many threads to spin
  for (int i = 0; i < kPools; ++i) {
    ThreadPool pool(threads);
    std::atomic<int64_t> done{0};
    for (int region = 0; region < kRegions; ++region) {
      pool.run(
          threads, 0,
          [](void* context, int64_t begin, int64_t end, int32_t) {
            *static_cast<std::atomic<int64_t>*>(context) += end - begin;
            return 0;
          },
          &done);
    }
    EXPECT_EQ(done, int64_t{kRegions} * threads);
  }
}

}  // namespace
}  // namespace kilter
