#include "base/free_memory.h"

#include <malloc.h>

#include <cstddef>

namespace kilter {

void return_free_memory() {
#ifdef __GLIBC__
  constexpr size_t kKept = size_t{256} << 20;
  if (mallinfo2().fordblks > kKept) malloc_trim(0);
#endif
}

}  // namespace kilter
