// How many threads the work of one kernel keeps busy for longer than it takes to wake and to join them.
#pragma once

#include <cstdint>

#include "loop/loop.h"
#include "target/target.h"

namespace kilter {

/// The most threads that run the kernel sooner than one thread fewer does, by TargetLimits::thread_cycles and
/// thread_bytes: at least 1. 0: as many as a pool can have. Depends on the kernel and the limits alone, never on a
/// measurement, so a plan is the same on every machine.
int32_t paying_threads(const LoopFunc& func, const TargetLimits& limits);

}  // namespace kilter
