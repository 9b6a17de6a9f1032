// What a worker tells of its own death: the signal, the thread, the address and what lies there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/thread_pool.h"
#include "tune/run/wire.h"

namespace kilter::tune {

enum class Region : int32_t { arena, scratch, input, output, constants };
/// "the arena", "the scratch memory", "an input", "an output", "the constants".
std::string_view name(Region region);

/// Installs the handler for the calling thread and all threads of the pool, each with a signal stack of its own. The
/// process then dies of the signal as without. `board` and the pool's threads outlive everything.
void install_crash_handler(Board& board, ThreadPool& pool);

/// Says what lies in [begin, end) while it lives, for addresses near by.
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
