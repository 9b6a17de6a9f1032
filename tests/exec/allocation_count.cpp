#include "allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<int64_t> allocations{0};
std::atomic<int64_t> until_failure{0};
}  // namespace

void* operator new(size_t bytes) {
  ++allocations;
  if (until_failure > 0 && --until_failure == 0) throw std::bad_alloc();
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*bytes*/) noexcept { std::free(memory); }

namespace kilter {

int64_t allocation_count() { return allocations; }
void fail_allocation(int64_t n) { until_failure = n; }
int64_t allocation_to_fail() { return until_failure; }

}  // namespace kilter
