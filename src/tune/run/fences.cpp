#include "tune/run/fences.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/align.h"
#include "base/out_of_memory.h"

namespace kilter::tune {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kLine = 64;
constexpr int64_t kHugeFrom = int64_t{4} << 20;
constexpr auto kPattern = std::byte{0x5A};
constexpr int kPoison = 0xFF;

}  // namespace

Fenced::Fenced(int64_t bytes, int count, const std::string& what) : bytes_(bytes), count_(count) {
  room_ = std::max(round_up(bytes, kPage), kPage);
  stride_ = room_ + kPage;
  mapped_ = count * stride_ + kPage;
  void* at = mmap(nullptr, static_cast<size_t>(mapped_), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  const auto refuse = [&] {
    if (at != MAP_FAILED) munmap(at, static_cast<size_t>(mapped_));
    fail_out_of_memory(mapped_, what);
  };
  if (at == MAP_FAILED) refuse();
  base_ = static_cast<std::byte*>(at);
  const int64_t used = std::max(round_up(bytes, kLine), kLine);
  first_ = base_ + kPage + room_ - used;
  for (int i = 0; i < count; ++i) {
    std::byte* pages = base_ + kPage + i * stride_;
    if (mprotect(pages, static_cast<size_t>(room_), PROT_READ | PROT_WRITE) != 0) refuse();
    if (room_ >= kHugeFrom) madvise(pages, static_cast<size_t>(room_), MADV_HUGEPAGE);
    std::memset(pages, std::to_integer<int>(kPattern), static_cast<size_t>(room_ - used));
    std::memset(data(i), kPoison, static_cast<size_t>(bytes));
    std::memset(data(i) + bytes, std::to_integer<int>(kPattern), static_cast<size_t>(used - bytes));
  }
}

Fenced::~Fenced() {
  if (base_ != nullptr) munmap(base_, static_cast<size_t>(mapped_));
}

Fenced::Fenced(Fenced&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      first_(other.first_),
      mapped_(other.mapped_),
      bytes_(other.bytes_),
      room_(other.room_),
      stride_(other.stride_),
      count_(other.count_) {}

void Fenced::protect() const {
  for (int i = 0; i < count_; ++i) {
    (void)mprotect(base_ + kPage + i * stride_, static_cast<size_t>(room_), PROT_READ);
  }
}

std::optional<int64_t> Fenced::damage() {
  std::optional<int64_t> first;
  const auto look = [&](std::byte* begin, std::byte* end, const std::byte* stretch) {
    std::byte* at = std::find_if(begin, end, [](std::byte b) { return b != kPattern; });
    if (at == end) return;
    if (!first) first = at - stretch;
    std::fill(at, end, kPattern);
  };
  for (int i = 0; i < count_; ++i) {
    std::byte* pages = base_ + kPage + i * stride_;
    look(pages, data(i), data(i));
    look(data(i) + bytes_, pages + room_, data(i));
  }
  return first;
}

}  // namespace kilter::tune
