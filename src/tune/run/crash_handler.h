// A worker's report of its own crash: the signal, the thread, the address and the memory region there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/thread_pool.h"
#include "tune/run/wire.h"

namespace kilter::tune {

enum class Region : int32_t { arena, scratch, input, output, constants };
/// "the arena", "the scratch memory", "an input", "an output", "the constants".
std::string_view name(Region region);

/// Installs the handler for the calling thread and all threads of the pool, each with its own signal stack. The signal
/// still kills the process afterwards. `board` and the pool's threads must live as long as the process.
void install_crash_handler(Board& board, ThreadPool& pool);

/// Names the contents of [begin, end) while it exists, so that the handler can describe nearby addresses.
class MarkedRegion {
 public:
  MarkedRegion(Region region, const std::byte* begin, int64_t bytes);
  ~MarkedRegion();
  MarkedRegion(const MarkedRegion&) = delete;
  MarkedRegion& operator=(const MarkedRegion&) = delete;

 private:
  size_t slot_;
};

}  // namespace kilter::tune
