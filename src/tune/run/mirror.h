// The worker's own copy of the store's constants. Shared memory has small pages on most systems, and weights that
// stream through those take longer than in the network; the copy has huge pages, as a loaded network's constants have.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "tune/run/constant_store.h"

namespace kilter::tune {

/// Read-only but while bytes come in: who writes to a constant faults.
class Mirror {
 public:
  /// `store`: the shared memory, of ConstantStore::kReserve bytes of addresses.
  explicit Mirror(const std::byte* store);
  ~Mirror();
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  /// Copies the parts that are not there yet. Throws bad_input when memory runs out.
  void take(std::span<const StorePart> parts);
  /// Parts that the store has given up.
  void drop(std::span<const StorePart> parts);

  const std::byte* data() const { return data_; }
  /// Up to the end of the last part.
  int64_t size() const { return size_; }

 private:
  /// Parts in the order of their offsets, from `from` on.
  void copy(int64_t from, std::span<const StorePart> parts);
  void protect(int64_t begin, int64_t end, int how);

  const std::byte* store_;
  void* base_ = nullptr;
  std::byte* data_ = nullptr;  ///< at a boundary of huge pages
  int64_t size_ = 0;
  std::map<int64_t, uint64_t> serials_;  ///< by offset
};

}  // namespace kilter::tune
