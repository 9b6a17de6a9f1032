// The loops that measure the processor's peak rates: fused multiply-adds, reads, copies. There is one row per variant.
// Which variant is fastest depends on the machine, so the measurements try all variants that the machine can run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace kilter {

/// A loop of independent multiply-adds in registers.
struct FlopLoop {
  DType products;              ///< f32 or bf16, as in measure_peak()
  std::string_view name;       ///< "avx512 fma"
  std::string_view feature;    ///< required feature of cpu_features(); empty: none
  double flops_per_iteration;  ///< a multiply-add counts as 2
  void (*run)(int64_t iterations);
};

/// The chunk size in bytes: read and copy loops require sizes that are a multiple of it.
constexpr int64_t kLoopChunk = 8192;

/// A loop that only reads: `bytes` bytes (a multiple of kLoopChunk, 64-byte aligned), `passes` times.
struct ReadLoop {
  std::string name;  ///< "avx512, 4 streams, prefetch 1024"
  std::string_view feature;
  bool prefetches;  ///< only for levels beyond L2
  void (*run)(const std::byte* from, int64_t bytes, int64_t passes);
};

/// A loop that copies `bytes` bytes (a multiple of kLoopChunk, 64-byte aligned) `passes` times.
struct CopyLoop {
  std::string name;  ///< "avx512, past the caches"
  std::string_view feature;
  bool past_caches;  ///< only for DRAM
  void (*run)(std::byte* to, const std::byte* from, int64_t bytes, int64_t passes);
};

/// Returns the variants that this machine can run; at least one for f32.
std::vector<FlopLoop> flop_loops(DType products);
/// Returns the variants of the widest vectors only.
std::vector<ReadLoop> read_loops();
/// Returns the variants of the widest vectors, and the C library's copy.
std::vector<CopyLoop> copy_loops();

}  // namespace kilter
