#include "exec/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/align.h"
#include "base/error.h"
#include "base/out_of_memory.h"
#include "exec/cpu_limits.h"

namespace kilter {
namespace {

constexpr int64_t kHugeFrom = int64_t{4} << 20;
constexpr size_t kHugePage = size_t{2} << 20;

/// Returns how many bytes of memory this process may use. The files with its limits are read only once.
int64_t memory_bytes() {
  static const int64_t bytes = available_memory();
  return bytes;
}

}  // namespace

Block::Block(int64_t bytes, std::string_view what) {
  if (bytes <= 0) return;
  if (bytes > memory_bytes()) fail_out_of_memory(bytes, what, memory_bytes());
  const size_t rounded = static_cast<size_t>(round_up(bytes, kCacheLine));
  if (bytes <= kHugeFrom) {
    base_ = std::aligned_alloc(kCacheLine, rounded);
    if (base_ == nullptr) fail_out_of_memory(bytes, what, memory_bytes());
    std::memset(base_, 0, rounded);
    data_ = static_cast<std::byte*>(base_);
    return;
  }
  const size_t mapped = rounded + kHugePage;
  void* base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) fail_out_of_memory(bytes, what, memory_bytes());
  base_ = base;
  mapped_bytes_ = mapped;
  const auto address = reinterpret_cast<uintptr_t>(base);
  data_ = reinterpret_cast<std::byte*>(round_up(address, kHugePage));
  // Both calls are hints: without them the first run is slower, but correct.
  madvise(data_, rounded, MADV_HUGEPAGE);
#ifdef MADV_POPULATE_WRITE
  madvise(data_, rounded, MADV_POPULATE_WRITE);
#endif
}

Block::Block(int64_t bytes, std::string_view what, const Allocator* from) {
  if (from == nullptr) {
    *this = Block(bytes, what);
    return;
  }
  if (bytes <= 0) return;
  const size_t rounded = static_cast<size_t>(round_up(bytes, kCacheLine));
  void* memory = from->allocate(rounded, kCacheLine, from->user);
  if (memory == nullptr) {
    fail(ErrorKind::out_of_memory, "the allocator of the caller returned a null pointer for {} bytes, which {} needs",
         rounded, what);
  }
  allocator_ = *from;
  base_ = memory, bytes_ = rounded;
  if (reinterpret_cast<uintptr_t>(memory) % kCacheLine != 0) {
    *this = Block();
    fail(ErrorKind::usage,
         "the allocator of the caller returned {} for {} bytes of {}; expected a multiple of {}, the alignment that it "
         "was given",
         memory, rounded, what, kCacheLine);
  }
  data_ = static_cast<std::byte*>(memory);
  std::memset(data_, 0, rounded);
}

Block::~Block() {
  if (allocator_.release != nullptr) {
    if (base_ != nullptr) allocator_.release(base_, bytes_, allocator_.user);
  } else if (mapped_bytes_ > 0) {
    munmap(base_, mapped_bytes_);
  } else {
    std::free(base_);
  }
}

void Block::release_from(int64_t used) {
  if (mapped_bytes_ == 0) return;
  const auto end = round_up(reinterpret_cast<uintptr_t>(data_) + static_cast<size_t>(used), kHugePage);
  const auto mapped_end = reinterpret_cast<uintptr_t>(base_) + mapped_bytes_;
  if (end < mapped_end) madvise(reinterpret_cast<void*>(end), mapped_end - end, MADV_DONTNEED);
}

Block::Block(Block&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      base_(std::exchange(other.base_, nullptr)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)),
      bytes_(std::exchange(other.bytes_, 0)),
      allocator_(std::exchange(other.allocator_, {})) {}

Block& Block::operator=(Block&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(base_, other.base_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(bytes_, other.bytes_);
  std::swap(allocator_, other.allocator_);
  return *this;
}

ExecutableCode::ExecutableCode(std::span<const std::byte> code) : bytes_(code.size()) {
  if (bytes_ == 0) return;
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool mapped = memory != MAP_FAILED;
  if (mapped) std::memcpy(memory, code.data(), bytes_);
  if (!mapped || mprotect(memory, bytes_, PROT_READ | PROT_EXEC) != 0) {
    const int code_of_error = errno;
    if (mapped) munmap(memory, bytes_);
    fail(ErrorKind::internal,
         "the system refused {} bytes of executable memory: {}; does it forbid making memory executable?", bytes_,
         std::generic_category().message(code_of_error));
  }
  data_ = static_cast<std::byte*>(memory);
  __builtin___clear_cache(reinterpret_cast<char*>(data_), reinterpret_cast<char*>(data_ + bytes_));
}

ExecutableCode::~ExecutableCode() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace kilter
