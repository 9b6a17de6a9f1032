// The worker's own copy of the store's constants. Shared memory has small pages on most systems, so weights stream from
// it more slowly than in the network. The copy has huge pages, like the constants of a loaded network.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "tune/run/constant_store.h"

namespace kilter::tune {

/// The copy is read-only except while bytes are copied in, so that writing to a constant faults.
class Mirror {
 public:
  /// `store`: the shared memory, with ConstantStore::kReserve bytes of address space.
  explicit Mirror(const std::byte* store);
  ~Mirror();
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  /// Copies the parts that are missing. Throws out_of_memory if there is no memory left.
  void take(std::span<const StorePart> parts);
  /// Forgets parts that the store has released.
  void drop(std::span<const StorePart> parts);

  const std::byte* data() const { return data_; }
  /// The end of the last part.
  int64_t size() const { return size_; }

 private:
  /// Copies parts, which are sorted by offset and begin at `from`.
  void copy(int64_t from, std::span<const StorePart> parts);
  void protect(int64_t begin, int64_t end, int how);

  const std::byte* store_;
  void* base_ = nullptr;
  std::byte* data_ = nullptr;  ///< aligned to huge pages
  int64_t size_ = 0;
  std::map<int64_t, uint64_t> serials_;  ///< by offset
};

}  // namespace kilter::tune
