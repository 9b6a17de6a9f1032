#include "base/free_memory.h"

#include <malloc.h>

#include <atomic>
#include <cstddef>

namespace kilter {

void return_free_memory() {
#ifdef __GLIBC__
  constexpr size_t kKept = size_t{256} << 20;
  constexpr unsigned kCalls = 8;
  static std::atomic<unsigned> calls = 0;
  if (calls.fetch_add(1, std::memory_order_relaxed) % kCalls != 0) return;
  if (mallinfo2().fordblks > kKept) malloc_trim(0);
#endif
}

}  // namespace kilter
