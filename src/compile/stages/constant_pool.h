// The packed constants of a plan under construction.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "exec/memory.h"

namespace kilter {

/// The bytes that a constant of this size occupies in a ConstantPool.
int64_t stored_bytes(int64_t bytes);

/// A block that is filled with constants one after another; equal constants share their bytes. A large block uses
/// huge pages, so that streaming weights from memory causes few TLB misses.
class ConstantPool {
 public:
  /// `capacity`: at least the sum of stored_bytes() of all different constants that will be added, plus the bytes of
  /// the largest: a constant is written after all others before it is found to equal one of them.
  explicit ConstantPool(int64_t capacity);
  /// Adds a constant, which `fill` writes to zeroed memory, and returns its byte offset, a multiple of 64.
  int64_t add(int64_t bytes, const std::function<void(std::byte*)>& fill);
  /// Removes the constant at `at`, which add() has just added.
  void drop_last(int64_t at);
  const std::byte* data() const { return block_.data(); }
  int64_t bytes() const { return used_; }
  /// Returns the block, without the memory that is not in use.
  Block finish();

 private:
  struct Part {
    int64_t at = 0, bytes = 0;
  };
  int64_t capacity_;
  Block block_;
  std::map<uint64_t, Part> by_hash_;
  uint64_t last_hash_ = 0;  ///< of the constant added last
  int64_t used_ = 0;
};

}  // namespace kilter
