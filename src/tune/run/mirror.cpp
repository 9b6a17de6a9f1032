#include "tune/run/mirror.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/align.h"
#include "base/out_of_memory.h"

namespace kilter::tune {
namespace {

constexpr int64_t kHuge = int64_t{2} << 20;
constexpr int64_t kAtOnce = int64_t{32} << 20;
constexpr int64_t kReserve = ConstantStore::kReserve + kHuge;

}  // namespace

Mirror::Mirror(const std::byte* store) : store_(store) {
  base_ = mmap(nullptr, kReserve, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base_ == MAP_FAILED) fail_out_of_memory(kReserve, "addresses of constants");
  const auto address = reinterpret_cast<uintptr_t>(base_);
  data_ = reinterpret_cast<std::byte*>(round_up<uintptr_t>(address, kHuge));
  madvise(data_, ConstantStore::kReserve, MADV_HUGEPAGE);
}

Mirror::~Mirror() { munmap(base_, kReserve); }

void Mirror::protect(int64_t begin, int64_t end, int how) {
  // Protects whole huge pages, since protecting a part of one would split it.
  const int64_t first = begin / kHuge * kHuge;
  const int64_t last = round_up<int64_t>(end, kHuge);
  if (mprotect(data_ + first, static_cast<size_t>(last - first), how) == 0) return;
  fail_out_of_memory(last - first, "constants");
}

void Mirror::take(std::span<const StorePart> parts) {
  std::vector<StorePart> fresh;
  for (const StorePart& part : parts) {
    size_ = std::max(size_, part.offset + part.bytes);
    const auto known = serials_.find(part.offset);
    if (known == serials_.end() || known->second != part.serial) fresh.push_back(part);
  }
  std::sort(fresh.begin(), fresh.end(), [](const StorePart& a, const StorePart& b) { return a.offset < b.offset; });
  for (size_t i = 0; i < fresh.size();) {
    // Changes the protection of neighbouring parts together, but not of too many at the same time: writable memory
    // counts as private memory of this process, which is limited.
    const int64_t from = fresh[i].offset;
    size_t end = i + 1;
    while (end < fresh.size() && fresh[end].offset + fresh[end].bytes - from <= kAtOnce) ++end;
    copy(from, {fresh.data() + i, end - i});
    i = end;
  }
}

void Mirror::copy(int64_t from, std::span<const StorePart> parts) {
  const int64_t to = parts.back().offset + parts.back().bytes;
  for (int64_t begin = from; begin < to; begin += kAtOnce) {
    const int64_t end = std::min(begin + kAtOnce, to);
    protect(begin, end, PROT_READ | PROT_WRITE);
    for (const StorePart& part : parts) {
      const int64_t first = std::max(part.offset, begin), last = std::min(part.offset + part.bytes, end);
      if (first < last) std::memcpy(data_ + first, store_ + first, static_cast<size_t>(last - first));
    }
    protect(begin, end, PROT_READ);
  }
  for (const StorePart& part : parts) serials_[part.offset] = part.serial;
}

void Mirror::drop(std::span<const StorePart> parts) {
  for (const StorePart& part : parts) {
    const auto known = serials_.find(part.offset);
    if (known == serials_.end() || known->second != part.serial) continue;
    serials_.erase(known);
    const int64_t begin = round_up<int64_t>(part.offset, kHuge);
    const int64_t end = (part.offset + part.bytes) / kHuge * kHuge;
    if (end > begin) madvise(data_ + begin, static_cast<size_t>(end - begin), MADV_DONTNEED);
  }
}

}  // namespace kilter::tune
