// Random loop functions that are correct by construction: accesses are in bounds and free of races, and the iterations
// of vector loops are independent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "loop/loop.h"

namespace kilter::test {

/// Returns a function that depends only on the seed. It may contain explicit vectors, masks and lane reductions.
LoopFunc random_func(uint64_t seed);

/// Memory for the non-scratch buffers of a function, filled from a seed; index buffers (named "idx") get values 0..63.
class Memory {
 public:
  Memory(const LoopFunc& func, uint64_t seed);
  std::vector<std::byte*> args();
  /// Returns "" when the contents are equal bit for bit (any NaN equals any NaN), otherwise the first difference.
  std::string difference(const Memory& other) const;

 private:
  struct Block {
    std::string name;
    DType type;
    int64_t elems;
    std::vector<uint64_t> words;
  };
  std::vector<Block> blocks_;
};

/// Runs all parallel iterations of `func` on memory filled from `seed`.
Memory run(const LoopFunc& func, uint64_t seed);

}  // namespace kilter::test
