#include "loop/node_memory.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace kilter::node_memory {

#if defined(__SANITIZE_ADDRESS__)

// AddressSanitizer sees each node on its own.
void* take(size_t bytes) { return ::operator new(bytes); }
void give(void* memory, size_t bytes) noexcept { ::operator delete(memory, bytes); }

#else

namespace {

constexpr size_t kSlabBytes = size_t{1} << 18;
constexpr size_t kAlign = alignof(std::max_align_t);
constexpr size_t kMostBytes = kSlabBytes / 64;  // larger pieces are malloc's

/// The head of a slab, which lies at a multiple of kSlabBytes. `left` counts the pieces that are in use. While a thread
/// takes from the slab, it also counts kTaking, so that only give() needs an atomic operation.
struct alignas(kAlign) Slab {
  static constexpr int64_t kTaking = int64_t{1} << 40;
  std::atomic<int64_t> left = kTaking;

  void drop(int64_t count) noexcept {
    if (left.fetch_sub(count, std::memory_order_acq_rel) != count) return;
    this->~Slab();
    std::free(this);
  }
};

/// The slab that a thread takes from.
class Current {
 public:
  Current() = default;
  ~Current() { retire(); }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

  void* take(size_t bytes) {
    if (kSlabBytes - used_ < bytes) renew();
    void* memory = reinterpret_cast<std::byte*>(slab_) + used_;
    used_ += bytes;
    ++taken_;
    return memory;
  }

 private:
  void renew() {
    void* memory = std::aligned_alloc(kSlabBytes, kSlabBytes);
    if (memory == nullptr) throw std::bad_alloc();
    retire();
    slab_ = new (memory) Slab();
    used_ = sizeof(Slab), taken_ = 0;
  }
  void retire() noexcept {
    if (slab_ != nullptr) slab_->drop(Slab::kTaking - taken_);
    slab_ = nullptr, used_ = kSlabBytes;
  }

  Slab* slab_ = nullptr;
  size_t used_ = kSlabBytes;
  int64_t taken_ = 0;
};

thread_local Current current;

}  // namespace

void* take(size_t bytes) {
  if (bytes > kMostBytes) return ::operator new(bytes);
  return current.take((bytes + kAlign - 1) / kAlign * kAlign);
}

void give(void* memory, size_t bytes) noexcept {
  if (bytes > kMostBytes) return ::operator delete(memory, bytes);
  reinterpret_cast<Slab*>(reinterpret_cast<uintptr_t>(memory) / kSlabBytes * kSlabBytes)->drop(1);
}

#endif

}  // namespace kilter::node_memory
