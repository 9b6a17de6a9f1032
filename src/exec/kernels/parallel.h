// Loops of runtime kernels on the threads of a pool.
#pragma once

#include <cstdint>

#include "exec/thread_pool.h"

namespace kilter {

/// Work, in basic operations, below which a loop is not worth waking a thread for.
constexpr int64_t kWorkOfAThread = 1 << 15;

/// Calls f(begin, end) for ranges that together are [0, count), perhaps on several threads. `work`: basic operations of
/// one iteration. `pool` may be null.
template <class F>
void parallel_ranges(ThreadPool* pool, int64_t count, int64_t work, F f) {
  const int64_t threads = count <= 1 || pool == nullptr ? 1 : count * work / kWorkOfAThread;
  if (threads <= 1 || pool->threads() <= 1) {
    if (count > 0) f(int64_t{0}, count);
    return;
  }
  const auto body = [](void* context, int64_t begin, int64_t end, int32_t) -> int32_t {
    (*static_cast<F*>(context))(begin, end);
    return 0;
  };
  pool->run(count, static_cast<int>(threads < 1024 ? threads : 1024), body, &f);
}

}  // namespace kilter
