// The packed constants of a plan under construction.
#pragma once

#include <cstdint>
#include <map>

#include "base/tensor.h"
#include "exec/memory.h"

namespace kilter {

/// The bytes that a constant of this size occupies in a ConstantPool.
int64_t stored_bytes(int64_t bytes);

/// Grows the block of packed constants; equal tensors share their bytes.
class ConstantPool {
 public:
  /// Adds a tensor and returns the byte offset of its data in the block, 64-byte aligned.
  int64_t add(const Tensor& tensor);
  int64_t bytes() const { return total_; }
  /// Joins all constants in one block and frees the pool's own copies. A large block is on huge pages, so that
  /// weights that stream from memory cause few TLB misses.
  Block join();

 private:
  std::map<int64_t, Tensor> parts_;  ///< by offset
  std::map<uint64_t, int64_t> by_hash_;
  int64_t total_ = 0;
};

}  // namespace kilter
