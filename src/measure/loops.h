// The loops that measure what the processor can do at most: fused multiply-adds, reads, copies. One row a variant;
// which is fastest depends on the machine, so the measurements try all that it can run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kilter {

/// Independent fp32 multiply-adds in registers.
struct FlopLoop {
  std::string_view name;       ///< "avx512 fma"
  std::string_view feature;    ///< of cpu_features() that it needs; empty: none
  double flops_per_iteration;  ///< a multiply-add counts 2
  void (*run)(int64_t iterations);
};

/// Bytes per chunk that read and copy loops want their sizes to be a multiple of.
constexpr int64_t kLoopChunk = 8192;

/// Reads `bytes` bytes (a multiple of kLoopChunk, 64-byte aligned) `passes` times, and does nothing else.
struct ReadLoop {
  std::string name;  ///< "avx512, 4 streams, prefetch 1024"
  std::string_view feature;
  bool prefetches;  ///< for levels beyond L2 only
  void (*run)(const std::byte* from, int64_t bytes, int64_t passes);
};

/// Copies `bytes` bytes (a multiple of kLoopChunk, 64-byte aligned) `passes` times.
struct CopyLoop {
  std::string name;  ///< "avx512, past the caches"
  std::string_view feature;
  bool past_caches;  ///< for DRAM only
  void (*run)(std::byte* to, const std::byte* from, int64_t bytes, int64_t passes);
};

/// The variants that this machine can run; at least one of each.
std::vector<FlopLoop> flop_loops();
/// Only those of the widest vectors.
std::vector<ReadLoop> read_loops();
/// Those, and the C library's.
std::vector<CopyLoop> copy_loops();

}  // namespace kilter
