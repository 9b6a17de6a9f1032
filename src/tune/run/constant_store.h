// The packed constants of all variants, each distinct one once, in memory that the worker can read and not write.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <utility>

#include "tune/run/shared_memory.h"

namespace kilter::tune {

/// A stretch of the store. The serial number is never used again, so (offset, serial) names the bytes.
struct StorePart {
  int64_t offset = 0, bytes = 0;
  uint64_t serial = 0;
};

/// Safe from several threads: a build adds while the runner loads.
class ConstantStore {
 public:
  static constexpr int64_t kReserve = int64_t{64} << 30;  ///< bytes of addresses

  ConstantStore();
  ConstantStore(const ConstantStore&) = delete;
  ConstantStore& operator=(const ConstantStore&) = delete;

  /// The stretch that holds these bytes: one that is there already (same hash and size), or a new one at a 64-byte
  /// boundary, from 64 KiB on at a page boundary. Each call wants one release(). Throws out_of_memory when memory runs
  /// out.
  StorePart add(std::span<const std::byte> bytes);
  /// The stretch that covers [offset, offset + bytes), which add() gave; one release() more.
  StorePart share(int64_t offset, int64_t bytes);
  /// The same as add() for bytes that are like no others.
  StorePart put(std::span<const std::byte> bytes);
  /// True when that was its last user, and the stretch is free again.
  bool release(const StorePart& part);

  /// All stretches are relative to it; it never moves.
  const std::byte* data() const { return memory_.data(); }
  /// Largest offset in use.
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
    int64_t room = 0;  ///< bytes that it takes
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
  std::map<int64_t, int64_t> free_;    ///< offset, bytes; no two touch
  int64_t top_ = 0, used_ = 0;
  uint64_t next_serial_ = 1;
};

}  // namespace kilter::tune
