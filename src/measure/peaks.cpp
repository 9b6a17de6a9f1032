#include "measure/peaks.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "base/ticks.h"
#include "measure/caches.h"
#include "measure/loops.h"
#include "measure/team.h"

namespace kilter {
namespace {

constexpr std::array<std::string_view, 4> kLevelNames = {"L1", "L2", "L3", "DRAM"};

/// Memory on its own pages, huge if the system allows, and written once so that it is backed.
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
  static constexpr int64_t kSlack = 16384;  // prefetches go beyond the end
  size_t bytes_;
  void* mapping_ = nullptr;
  std::byte* start_ = nullptr;
};

void check_threads(int threads) {
  if (threads < 1 || threads > 1024) {
    fail(ErrorKind::usage, "cannot measure with {} threads; expected 1 to 1024", threads);
  }
}

int64_t whole_chunks(int64_t bytes) { return std::max(kLoopChunk, bytes / kLoopChunk * kLoopChunk); }

/// Runs windows of every loop in turn; `run_window(loop, i)` runs window `i` of all windows and returns the operations
/// or bytes of one thread. The first window of a loop only warms up. Stops after `ms` once no window has beaten the
/// best by 2 % for half of that time, and after five times `ms` in any case. If the threads never ran at the same time,
/// returns the sum of each thread's best rates: an upper bound.
template <class Loop>
PeakRate best_window(Team& team, const std::vector<Loop>& loops, double ms,
                     const std::function<double(const Loop&, int64_t)>& run_window) {
  constexpr double kTogether = 0.8;
  PeakRate best;
  std::vector<double> alone(static_cast<size_t>(team.threads()));
  const uint64_t start = ticks();
  double settled = 0;  // time in milliseconds at which the best rate last changed noticeably
  double level = 0;
  int64_t count = 0;
  for (int64_t turn = 0;; ++turn) {
    const double passed = ms_between(start, ticks());
    if (best.rate > 1.02 * level) level = best.rate, settled = passed;
    const bool found = best.rate > 0 && passed >= ms && passed - settled >= ms / 2;
    if (turn >= 3 && (found || passed >= 5 * ms)) break;
    for (const Loop& loop : loops) {
      const double amount = run_window(loop, count++) * 1e-9;
      if (turn == 0) continue;
      const Team::Window& window = team.window();
      for (size_t i = 0; i < alone.size(); ++i) alone[i] = std::max(alone[i], amount / window.threads[i]);
      const double rate = amount * team.threads() / window.seconds;
      if (window.together >= kTogether && rate > best.rate) best = {rate, std::string(loop.name)};
    }
  }
  if (best.rate == 0)
    best = {std::accumulate(alone.begin(), alone.end(), 0.0), "sum over threads that did not run at the same time"};
  return best;
}

/// Returns the bytes that each of `threads` threads reads from a level.
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
      // If several virtual machines share a large L3, even a quarter of it may not stay cached: hence the limit.
      return whole_chunks(std::clamp(sizes.l3_bytes / 4 / threads, 2 * l2, 8 * l2));
    case Level::dram:
      break;
  }
  const int64_t total = std::clamp(4 * last_level_cache_bytes(), int64_t{64} << 20, int64_t{512} << 20);
  return whole_chunks(std::max(total / threads, int64_t{1} << 20));
}

/// The part of a thread's bytes that one window reads: all of it for a cache, the next 8 MB for DRAM.
struct Slice {
  int64_t offset, bytes, passes;
};
Slice slice_of(Level level, int64_t per_thread, int64_t window) {
  if (level != Level::dram) {
    // About 0.1 to 0.3 ms at the rates of today's caches. L1 takes 2 to 6 us: a sibling hardware thread, an interrupt
    // or a slower clock would ruin its rate, and only short windows fit between such events.
    const int64_t once = level == Level::l1 ? 1 << 20 : level == Level::l2 ? 8 << 20 : 4 << 20;
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

PeakRate measure_peak(int threads, double ms, DType products) {
  check_threads(threads);
  const std::vector<FlopLoop> loops = flop_loops(products);
  if (loops.empty()) return {};
  Team team(threads);
  constexpr int64_t kIterations = 100'000;
  return best_window<FlopLoop>(team, loops, ms, [&](const FlopLoop& loop, int64_t) {
    team.run([&](int) { loop.run(kIterations); });
    return loop.flops_per_iteration * kIterations;
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
  return best_window<ReadLoop>(team, loops, ms, [&](const ReadLoop& loop, int64_t window) {
    const Slice slice = slice_of(level, share, window);
    team.run([&](int thread) { loop.run(buffer.at(thread * share + slice.offset), slice.bytes, slice.passes); });
    return static_cast<double>(slice.bytes * slice.passes);
  });
}

PeakRate measure_copy(Level level, int threads, double ms) {
  check_threads(threads);
  const int64_t share = whole_chunks(bytes_per_thread(level, threads) / 2);
  // Avoids equal offsets within a page, which make a load wait for an unrelated store (4K aliasing).
  const int64_t stride = 2 * share + 3 * 256;
  const Buffer buffer(stride * threads + 4096);
  Team team(threads);
  team.run([&](int thread) { buffer.touch(thread * stride, stride); });
  std::vector<CopyLoop> loops = copy_loops();
  if (level != Level::dram) std::erase_if(loops, [](const CopyLoop& l) { return l.past_caches; });
  return best_window<CopyLoop>(team, loops, ms, [&](const CopyLoop& loop, int64_t window) {
    const Slice slice = slice_of(level, share, window);
    team.run([&](int thread) {
      std::byte* from = buffer.at(thread * stride + slice.offset);
      loop.run(from + share + 2 * 256, from, slice.bytes, slice.passes);
    });
    return static_cast<double>(2 * slice.bytes * slice.passes);
  });
}

}  // namespace kilter
