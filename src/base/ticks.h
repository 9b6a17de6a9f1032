// The cheapest reliable clock of this machine. Time stamps and timing samples are made with it.
#pragma once

#include <cstdint>
#include <string_view>

namespace kilter {

namespace ticks_detail {
bool tsc_is_sound();
uint64_t monotonic_ns();
inline const bool kTsc = tsc_is_sound();
}  // namespace ticks_detail

/// Returns a time stamp that never runs backwards and means the same on every core. It is the processor's time stamp
/// counter if that is invariant (CPUID 0x80000007, EDX bit 8) and the kernel offers it as a clock source, and otherwise
/// nanoseconds of CLOCK_MONOTONIC. The counter is read by a plain rdtsc, which waits for nothing, so neighbouring
/// instructions may move across it. Regions shorter than about 100 ns need their own fence.
inline uint64_t ticks() {
#if defined(__x86_64__)
  if (ticks_detail::kTsc) return __builtin_ia32_rdtsc();
#endif
  return ticks_detail::monotonic_ns();
}

/// Returns the length of a tick in nanoseconds, which agrees with CLOCK_MONOTONIC_RAW to 1e-4. The first call takes
/// about 20 ms to calibrate; make it before anything that must not be disturbed. Safe from any thread.
double ns_per_tick();
/// Sets the result of ns_per_tick() to the value that another process on this machine measured, which saves the
/// calibration. Legal only before the first call of ns_per_tick().
void adopt_ns_per_tick(double ns);

/// Returns the time between two stamps of ticks() in milliseconds; negative when `to` is the earlier one.
inline double ms_between(uint64_t from, uint64_t to) {
  return static_cast<double>(static_cast<int64_t>(to - from)) * ns_per_tick() * 1e-6;
}

/// Returns "tsc" or "monotonic".
std::string_view tick_source();

}  // namespace kilter
