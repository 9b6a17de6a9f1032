// What the machine allows a region: the time below which no code for it can come.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/plan.h"

namespace kilter::profile {

/// Measured peaks of the machine for each number of threads (index 0: one thread).
struct Peaks {
  std::vector<double> gflops;                       ///< fp32 fused multiply-add, 2 operations each
  std::vector<double> l2_gbps, l3_gbps, dram_gbps;  ///< sustained reads, all threads together
  std::vector<double> region_us;                    ///< an empty parallel region, fork to join
  int64_t l2_bytes = 0, l3_bytes = 0;               ///< per core, shared

  double at(const std::vector<double>& values, int threads) const;
};

/// Measures anew: about 0.1 s a thread count of 1 and `threads`.
Peaks measure_peaks(int threads);
/// The better of both, figure by figure: what others took from one measurement shows in the other one.
Peaks better(const Peaks& a, const Peaks& b);

/// Share by which measured peaks may be too low: a layer that is faster beats its bound.
constexpr double kPeakError = 0.05;

struct Bound {
  enum Kind : uint8_t { none, compute, memory, overhead } kind = none;
  double ms = 0;
  std::string level;  ///< "FMA", "L2", "L3", "DRAM", "fork and join"
};
std::string_view name(Bound::Kind kind);

/// How a run uses memory, which decides where operands come from.
struct Footprint {
  int64_t weights_bytes = 0;  ///< packed constants that one run reads
  int64_t touched_bytes = 0;  ///< with the arena and the borders
};
Footprint footprint(const Plan& plan);

/// Bytes of the step's operands that are packed constants.
int64_t weight_bytes(const Step& step);

/// Operands at the bandwidth of the level that they come from at best, and that level: weights from L3 as far as a run
/// touches more than L2 holds, from DRAM as far as it touches more than L3 does, activations from the nearest level
/// that holds them. The step must not be a reference one.
Bound memory_bound_of(const Step& step, const Footprint& run, const Peaks& peaks, int threads);

/// The larger of arithmetic at the FMA peak, memory_bound_of() and what a region costs with nothing to do.
Bound bound_of(const Step& step, const Footprint& run, const Peaks& peaks, int threads);

}  // namespace kilter::profile
