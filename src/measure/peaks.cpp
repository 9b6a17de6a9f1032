#include "measure/peaks.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <span>
#include <thread>

#include "base/error.h"
#include "base/ticks.h"
#include "measure/caches.h"
#include "measure/conditions.h"
#include "measure/loops.h"

namespace kilter {
namespace {

constexpr std::array<std::string_view, 4> kLevelNames = {"L1", "L2", "L3", "DRAM"};

/// Threads that start each window together.
class Team {
 public:
  using Body = std::function<void(int thread)>;

  explicit Team(int threads) : threads_(threads), spans_(static_cast<size_t>(threads)) {
    if (threads == 1) return;
    const std::vector<int> cpus = affinity_cpus();
    const bool pin = static_cast<size_t>(threads) <= cpus.size();
    for (int i = 0; i < threads; ++i) {
      pool_.emplace_back([this, i, cpu = pin ? cpus[static_cast<size_t>(i)] : -1] { work(i, cpu); });
    }
  }
  ~Team() {
    body_ = nullptr;
    start_.fetch_add(1);
    for (std::thread& t : pool_) t.join();
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  /// Runs one window and answers its length in seconds.
  double run(const Body& body) {
    body_ = &body;
    if (pool_.empty()) {
      time(0);
    } else {
      done_.store(0);
      start_.fetch_add(1);
      while (done_.load() < threads_) std::this_thread::yield();
    }
    uint64_t first = spans_[0].start;
    uint64_t last = spans_[0].end;
    for (const Span& s : spans_) {
      first = std::min(first, s.start);
      last = std::max(last, s.end);
    }
    return ms_between(first, last) * 1e-3;
  }

 private:
  struct alignas(128) Span {
    uint64_t start = 0, end = 0;
  };

  void time(int thread) {
    Span& span = spans_[static_cast<size_t>(thread)];
    span.start = ticks();
    (*body_)(thread);
    span.end = ticks();
  }

  void work(int thread, int cpu) {
    if (cpu >= 0 && cpu < CPU_SETSIZE) {
      cpu_set_t mask;
      CPU_ZERO(&mask);
      CPU_SET(cpu, &mask);
      pthread_setaffinity_np(pthread_self(), sizeof mask, &mask);
    }
    for (int64_t seen = 0;;) {
      while (start_.load() == seen) std::this_thread::yield();
      ++seen;
      if (body_ == nullptr) return;
      // All threads arrive before any begins: one that is woken late would stretch the window.
      arrived_.fetch_add(1);
      while (arrived_.load() < seen * threads_) std::this_thread::yield();
      time(thread);
      done_.fetch_add(1);
    }
  }

  const int threads_;
  std::vector<Span> spans_;
  std::vector<std::thread> pool_;
  const Body* body_ = nullptr;
  std::atomic<int64_t> start_ = 0, arrived_ = 0, done_ = 0;
};

/// Memory of its own pages, huge where the system allows, written once so that it is really there.
class Buffer {
 public:
  explicit Buffer(int64_t bytes) : bytes_(static_cast<size_t>(bytes + kSlack)) {
    void* at = mmap(nullptr, bytes_ + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
      fail(ErrorKind::unsupported,
           "measuring bandwidth: no memory for a buffer of {} MB; free some or use fewer threads", bytes >> 20);
    }
    mapping_ = at;
    const auto address = reinterpret_cast<uintptr_t>(at);
    start_ = reinterpret_cast<std::byte*>((address + kHuge - 1) / kHuge * kHuge);
    madvise(start_, bytes_, MADV_HUGEPAGE);
  }
  ~Buffer() { munmap(mapping_, bytes_ + kHuge); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* at(int64_t offset) const { return start_ + offset; }
  void touch(int64_t from, int64_t bytes) const {
    for (int64_t i = 0; i < bytes; i += 4096) start_[from + i] = std::byte{1};
  }

 private:
  static constexpr size_t kHuge = size_t{2} << 20;
  static constexpr int64_t kSlack = 16384;  // what is prefetched behind the end
  size_t bytes_;
  void* mapping_ = nullptr;
  std::byte* start_ = nullptr;
};

void check_threads(int threads) {
  if (threads < 1 || threads > 1024) {
    fail(ErrorKind::usage, "measuring with {} threads: the number of threads is 1..1024", threads);
  }
}

int64_t whole_chunks(int64_t bytes) { return std::max(kLoopChunk, bytes / kLoopChunk * kLoopChunk); }

/// Runs windows of every loop in turn until `ms` have passed and each had three, the first of which only warms up.
/// `run_window(loop, i)` runs window `i` of all windows and answers its rate in operations or bytes per second.
template <class Loop>
PeakRate best_window(const std::vector<Loop>& loops, double ms,
                     const std::function<double(const Loop&, int64_t)>& run_window) {
  PeakRate best;
  const uint64_t start = ticks();
  int64_t count = 0;
  for (int64_t turn = 0; turn < 3 || ms_between(start, ticks()) < ms; ++turn) {
    for (const Loop& loop : loops) {
      const double rate = run_window(loop, count++) * 1e-9;
      if (turn > 0 && rate > best.rate) best = {rate, std::string(loop.name)};
    }
  }
  return best;
}

/// Bytes that each of `threads` threads reads of a level.
int64_t bytes_per_thread(Level level, int threads) {
  const CacheSizes sizes = cache_sizes();
  const int64_t l1 = sizes.l1_bytes > 0 ? sizes.l1_bytes : 32 << 10;
  const int64_t l2 = sizes.l2_bytes > 0 ? sizes.l2_bytes : 256 << 10;
  switch (level) {
    case Level::l1:
      return whole_chunks(l1 / 2);
    case Level::l2:
      return whole_chunks(std::max(l2 / 2, 2 * l1));
    case Level::l3:
      return whole_chunks(std::max(sizes.l3_bytes / 4 / threads, 2 * l2));
    case Level::dram:
      break;
  }
  const int64_t total = std::clamp(4 * last_level_cache_bytes(), int64_t{64} << 20, int64_t{512} << 20);
  return whole_chunks(std::max(total / threads, int64_t{1} << 20));
}

/// The part of a thread's bytes that one window reads: all of a cache, the next 8 MB of DRAM.
struct Slice {
  int64_t offset, bytes, passes;
};
Slice slice_of(Level level, int64_t per_thread, int64_t window) {
  if (level != Level::dram) {
    // About 0.1 to 0.5 ms at the rates of today's caches.
    const int64_t once = level == Level::l1 ? 8 << 20 : level == Level::l2 ? 8 << 20 : 4 << 20;
    return {0, per_thread, std::max(int64_t{1}, once / per_thread)};
  }
  const int64_t bytes = std::min(per_thread, int64_t{8} << 20);
  const int64_t slices = per_thread / bytes;
  return {window % slices * bytes, bytes, 1};
}

}  // namespace

std::string_view level_name(Level level) { return kLevelNames[static_cast<size_t>(level)]; }

std::optional<Level> parse_level(std::string_view name) {
  const auto* at = std::find(kLevelNames.begin(), kLevelNames.end(), name);
  if (at == kLevelNames.end()) return std::nullopt;
  return static_cast<Level>(at - kLevelNames.begin());
}

std::vector<Level> memory_levels() {
  if (cache_sizes().l3_bytes == 0) return {Level::l1, Level::l2, Level::dram};
  return {Level::l1, Level::l2, Level::l3, Level::dram};
}

PeakRate measure_peak(int threads, double ms) {
  check_threads(threads);
  Team team(threads);
  constexpr int64_t kIterations = 100'000;
  return best_window<FlopLoop>(flop_loops(), ms, [&](const FlopLoop& loop, int64_t) {
    const double seconds = team.run([&](int) { loop.run(kIterations); });
    return loop.flops_per_iteration * kIterations * threads / seconds;
  });
}

PeakRate measure_read(Level level, int threads, double ms) {
  check_threads(threads);
  const int64_t share = bytes_per_thread(level, threads);
  const Buffer buffer(share * threads);
  Team team(threads);
  team.run([&](int thread) { buffer.touch(thread * share, share); });
  std::vector<ReadLoop> loops = read_loops();
  if (level == Level::l1 || level == Level::l2) std::erase_if(loops, [](const ReadLoop& l) { return l.prefetches; });
  return best_window<ReadLoop>(loops, ms, [&](const ReadLoop& loop, int64_t window) {
    const Slice slice = slice_of(level, share, window);
    const double seconds =
        team.run([&](int thread) { loop.run(buffer.at(thread * share + slice.offset), slice.bytes, slice.passes); });
    return static_cast<double>(slice.bytes * slice.passes * threads) / seconds;
  });
}

PeakRate measure_copy(int threads, double ms) {
  check_threads(threads);
  const int64_t share = whole_chunks(bytes_per_thread(Level::dram, threads) / 2);
  const Buffer from(share * threads);
  const Buffer to(share * threads);
  Team team(threads);
  team.run([&](int thread) {
    from.touch(thread * share, share);
    to.touch(thread * share, share);
  });
  return best_window<CopyLoop>(copy_loops(), ms, [&](const CopyLoop& loop, int64_t window) {
    const Slice slice = slice_of(Level::dram, share, window);
    const double seconds = team.run([&](int thread) {
      const int64_t at = thread * share + slice.offset;
      loop.run(to.at(at), from.at(at), slice.bytes);
    });
    return static_cast<double>(2 * slice.bytes * threads) / seconds;
  });
}

}  // namespace kilter
