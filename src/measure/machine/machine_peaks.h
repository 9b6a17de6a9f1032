// The peaks that bounds are computed from, measured on this machine.
#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"

namespace kilter {

/// Measured peaks of the machine for each number of threads (index 0: one thread).
struct Peaks {
  std::vector<double> gflops;                       ///< fp32 fused multiply-add, 2 operations each
  std::vector<double> l2_gbps, l3_gbps, dram_gbps;  ///< sustained reads, all threads together
  std::vector<double> region_us;                    ///< an empty parallel region, fork to join
  int64_t l2_bytes = 0, l3_bytes = 0;               ///< per core, shared
  std::vector<double> bf16_gflops = {};             ///< products of bf16 with sums of f32; 0 without the instruction
  std::vector<double> byte_gops = {};               ///< products of bytes with sums of i32; 0 without the instruction

  double at(const std::vector<double>& values, int threads) const;
  /// GFLOP/s of products of a type, f32, bf16 or i8 (Step::multiplies). Without an instruction for i8, that of f32.
  double rate_of(DType products, int threads) const;
};

/// Measures the peaks, taking about 0.1 s each for one thread and for `threads` threads.
Peaks measure_peaks(int threads);
/// Returns the better of the two values of each peak, so that a figure that other programs disturbed is replaced.
Peaks better(const Peaks& a, const Peaks& b);

}  // namespace kilter
