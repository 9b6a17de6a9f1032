// Peak rates of this machine, measured now: fp32 FLOP/s and bytes per second from each level of the memory.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace kilter {

enum class Level { l1, l2, l3, dram };
/// Returns "L1", "L2", "L3" or "DRAM".
std::string_view level_name(Level level);
std::optional<Level> parse_level(std::string_view name);
/// Returns the levels that this machine has; some machines have no L3.
std::vector<Level> memory_levels();

/// A rate and the loop that reached it.
struct PeakRate {
  double rate = 0;  ///< GFLOP/s, or GB/s of 1e9 bytes
  std::string loop;
};

/// All of these functions run `threads` threads (1..1024, each on its own CPU if there are enough) for about `ms`
/// milliseconds, in windows of less than a millisecond. They return the rate of the best window of the best loop, which
/// is the undisturbed rate. A window lasts from the first thread's start to the last one's end. On a machine so busy
/// that the threads do not run at the same time, they take five times as long, and may return the sum of each thread's
/// best, which is an upper bound. Throw usage for other thread counts, and unsupported when there is no memory for the
/// buffers.
/// `products`: f32 for multiply-adds, bf16 for products of bf16 that are added to f32, or i8 for products of u8 and i8
/// that are added to i32. The rate is 0 if this machine has no instruction for such products.
PeakRate measure_peak(int threads, double ms = 40, DType products = DType::f32);
/// Measures bytes read. For L1 and L2, each thread reads its own buffer of half the cache. For L3, the threads together
/// read a quarter of it, but each reads two to eight times the size of its L2. For DRAM, they read four times the
/// last-level cache (64..512 MB).
PeakRate measure_read(Level level, int threads, double ms = 40);
/// Measures bytes read plus bytes written while copying one half of such buffers to the other.
PeakRate measure_copy(Level level, int threads, double ms = 40);

inline double measure_peak_gflops(int threads) { return measure_peak(threads).rate; }
inline double measure_bandwidth(Level level, int threads) { return measure_read(level, threads).rate; }

}  // namespace kilter
