#include "tune/run/constant_store.h"

#include <algorithm>
#include <cstring>

#include "base/align.h"
#include "base/error.h"
#include "base/hash.h"

namespace kilter::tune {
namespace {

constexpr int64_t kLine = 64;
constexpr int64_t kPage = 4096;
constexpr int64_t kPagesFrom = int64_t{64} << 10;
constexpr int64_t kGiveBackFrom = int64_t{1} << 20;

}  // namespace

ConstantStore::ConstantStore() : memory_(SharedMemory::create("kilter-constants", kReserve)) {}

StorePart ConstantStore::add(std::span<const std::byte> bytes) {
  const Key key{hash_bytes(bytes), static_cast<int64_t>(bytes.size())};
  const std::lock_guard hold(lock_);
  if (const auto known = by_content_.find(key); known != by_content_.end()) {
    Taken& taken = taken_.at(known->second);
    ++taken.users;
    return taken.part;
  }
  return take(bytes, &key);
}

StorePart ConstantStore::share(int64_t offset, int64_t bytes) {
  const std::lock_guard hold(lock_);
  auto it = taken_.upper_bound(offset);
  require(it != taken_.begin(), "byte {} of the store of constants belongs to no constant", offset);
  Taken& taken = std::prev(it)->second;
  require(offset + bytes <= taken.part.offset + taken.part.bytes,
          "bytes {} to {} of the store of constants are not inside one constant", offset, offset + bytes);
  ++taken.users;
  return taken.part;
}

StorePart ConstantStore::put(std::span<const std::byte> bytes) {
  const std::lock_guard hold(lock_);
  return take(bytes, nullptr);
}

StorePart ConstantStore::take(std::span<const std::byte> bytes, const Key* key) {
  const auto size = static_cast<int64_t>(bytes.size());
  const int64_t align = size >= kPagesFrom ? kPage : kLine;
  const int64_t room = std::max(round_up(size, align), kLine);
  const int64_t offset = find_room(room, align);
  Taken taken{{offset, size, next_serial_++}, room, 1, key != nullptr ? *key : Key{}, key != nullptr};
  if (size > 0) std::memcpy(memory_.data() + offset, bytes.data(), bytes.size());
  // Kernels may read whole vectors up to the end of the last line.
  std::memset(memory_.data() + offset + size, 0, static_cast<size_t>(room - size));
  if (taken.keyed) by_content_.emplace(taken.key, offset);
  used_ += room;
  return taken_.emplace(offset, taken).first->second.part;
}

int64_t ConstantStore::find_room(int64_t room, int64_t align) {
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const int64_t lost = round_up(it->first, align) - it->first;
    if (it->second - lost >= room && (best == free_.end() || it->second < best->second)) best = it;
  }
  if (best == free_.end()) {
    const int64_t offset = round_up(top_, align);
    memory_.grow(offset + room);
    memory_.back(offset, room);
    if (offset > top_) free_room(top_, offset - top_);
    top_ = offset + room;
    return offset;
  }
  const auto [begin, bytes] = *best;
  const int64_t offset = round_up(begin, align);
  memory_.back(offset, room);
  free_.erase(best);
  if (offset > begin) free_.emplace(begin, offset - begin);
  if (offset + room < begin + bytes) free_.emplace(offset + room, begin + bytes - offset - room);
  return offset;
}

bool ConstantStore::release(const StorePart& part) {
  const std::lock_guard hold(lock_);
  const auto it = taken_.find(part.offset);
  require(it != taken_.end() && it->second.part.serial == part.serial,
          "constants at byte {} of the store are released more often than acquired", part.offset);
  if (--it->second.users > 0) return false;
  const Taken gone = it->second;
  taken_.erase(it);
  if (gone.keyed) by_content_.erase(gone.key);
  used_ -= gone.room;
  if (gone.room >= kGiveBackFrom) memory_.give_back(part.offset, gone.room);
  free_room(part.offset, gone.room);
  return true;
}

void ConstantStore::free_room(int64_t offset, int64_t room) {
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + room == next->first) {
    room += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += room;
      return;
    }
  }
  free_.emplace(offset, room);
}

}  // namespace kilter::tune
