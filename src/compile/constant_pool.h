// The packed constants of a plan while it is built.
#pragma once

#include <cstdint>
#include <map>

#include "base/tensor.h"
#include "exec/memory.h"

namespace kilter {

/// Grows the block of packed constants; equal tensors share their bytes.
class ConstantPool {
 public:
  /// Offset in bytes of the tensor's data in the block, 64-byte aligned.
  int64_t add(const Tensor& tensor);
  /// Constants that lie elsewhere and count as the plan's.
  void count(int64_t bytes) { total_ += bytes; }
  int64_t bytes() const { return total_; }
  /// All of them in one block, on huge pages where there is much: weights that stream from memory miss no translations.
  /// The pool's own copies are given up.
  Block join();

 private:
  std::map<int64_t, Tensor> parts_;  ///< by offset
  std::map<uint64_t, int64_t> by_hash_;
  int64_t total_ = 0;
};

}  // namespace kilter
