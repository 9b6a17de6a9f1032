// What this machine does at most, measured now: fp32 FLOP/s and bytes per second from each level of the memory.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kilter {

enum class Level { l1, l2, l3, dram };
/// "L1", "L2", "L3", "DRAM".
std::string_view level_name(Level level);
std::optional<Level> parse_level(std::string_view name);
/// Those that this machine has: without L3 where it has none.
std::vector<Level> memory_levels();

/// A rate and the loop that reached it.
struct PeakRate {
  double rate = 0;  ///< GFLOP/s, or GB/s of 1e9 bytes
  std::string loop;
};

/// All of these run `threads` threads (1..1024, each on a CPU of its own where there are enough) for about `ms`
/// milliseconds in windows of less than one, and answer the best window of the best loop: the rate while nothing
/// disturbed. A window lasts from the first thread's start to the last one's end. On a machine so busy that the threads
/// do not get to run side by side it takes five times as long, and the answer may be the sum of each thread's best, an
/// upper bound. Throws usage for other thread counts, unsupported when memory for the buffers is missing.
PeakRate measure_peak(int threads, double ms = 40);
/// Bytes read. L1, L2: half of the cache, each thread its own; L3: the threads together a quarter, but each two to
/// eight times its L2; DRAM: four times the last-level cache (64..512 MB).
PeakRate measure_read(Level level, int threads, double ms = 40);
/// Bytes read plus bytes written while copying one half of such a buffer to the other.
PeakRate measure_copy(Level level, int threads, double ms = 40);

inline double measure_peak_gflops(int threads) { return measure_peak(threads).rate; }
inline double measure_bandwidth(Level level, int threads) { return measure_read(level, threads).rate; }

}  // namespace kilter
