// The number of threads for which a kernel has enough work to outweigh the time to wake and join them.
#pragma once

#include <cstdint>

#include "loop/loop.h"
#include "target/target.h"

namespace kilter {

/// The largest number of threads, at least 1, up to which each further thread still speeds up the kernel, according to
/// CpuLimits::thread_cycles and thread_bytes. 0: as many threads as a pool can have. Depends only on the kernel and
/// the limits, never on a measurement, so a plan is the same on every machine.
int32_t paying_threads(const LoopFunc& func, const CpuLimits& limits);

}  // namespace kilter
