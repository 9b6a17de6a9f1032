// The packed constants of all variants, stored once each, in memory that the worker can read but not write.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <utility>

#include "tune/run/shared_memory.h"

namespace kilter::tune {

/// A part of the store. Serial numbers are never reused, so (offset, serial) identifies the bytes.
struct StorePart {
  int64_t offset = 0, bytes = 0;
  uint64_t serial = 0;
};

/// Thread-safe: one thread may build plans and add their constants while another loads.
class ConstantStore {
 public:
  static constexpr int64_t kReserve = int64_t{64} << 30;  ///< bytes of address space

  ConstantStore();
  ConstantStore(const ConstantStore&) = delete;
  ConstantStore& operator=(const ConstantStore&) = delete;

  /// Returns the part that contains these bytes: an existing one (same hash and size), or a new one, aligned to 64
  /// bytes or, if it has at least 64 KiB, to a page. Each call needs one release(). Throws out_of_memory if there is no
  /// memory left.
  StorePart add(std::span<const std::byte> bytes);
  /// Returns the part that contains [offset, offset + bytes), which must come from add(). Needs a separate release().
  StorePart share(int64_t offset, int64_t bytes);
  /// Like add(), but always stores a new copy.
  StorePart put(std::span<const std::byte> bytes);
  /// Returns true if this was the last user, so that the part is free again.
  bool release(const StorePart& part);

  /// The address that all offsets refer to; it never changes.
  const std::byte* data() const { return memory_.data(); }
  /// End of the highest part in use.
  int64_t size() const {
    const std::lock_guard hold(lock_);
    return top_;
  }
  int64_t used_bytes() const {
    const std::lock_guard hold(lock_);
    return used_;
  }
  const SharedMemory& memory() const { return memory_; }

 private:
  using Key = std::pair<uint64_t, int64_t>;  ///< hash, bytes
  struct Taken {
    StorePart part;
    int64_t room = 0;  ///< bytes that the part occupies
    int64_t users = 0;
    Key key;
    bool keyed = false;
  };
  StorePart take(std::span<const std::byte> bytes, const Key* key);
  int64_t find_room(int64_t room, int64_t align);
  void free_room(int64_t offset, int64_t room);

  mutable std::mutex lock_;
  SharedMemory memory_;
  std::map<Key, int64_t> by_content_;  ///< offset
  std::map<int64_t, Taken> taken_;     ///< by offset
  std::map<int64_t, int64_t> free_;    ///< offset, bytes; adjacent entries are merged
  int64_t top_ = 0, used_ = 0;
  uint64_t next_serial_ = 1;
};

}  // namespace kilter::tune
