// Short work on several threads where no thread pool exists yet, for example while a file is loaded.
#pragma once

#include <cstddef>
#include <functional>

namespace kilter {

/// Calls work(i) for each i below `count`, on up to `threads` threads: the caller and helpers, which end before it
/// returns. Uses no more threads than there are CPUs for the process; one that cannot be started costs only time.
/// Once all have ended, the first exception that `work` threw is thrown again; the others are lost.
void on_helper_threads(size_t count, size_t threads, const std::function<void(size_t)>& work);

}  // namespace kilter
