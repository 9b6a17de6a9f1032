// The cheapest clock that is sound on this machine; what stamps and samples are made of.
#pragma once

#include <cstdint>
#include <string_view>

namespace kilter {

namespace ticks_detail {
bool tsc_is_sound();
uint64_t monotonic_ns();
inline const bool kTsc = tsc_is_sound();
}  // namespace ticks_detail

/// A time stamp that never runs backwards and means the same on every core. The processor's time stamp counter where it
/// is invariant (CPUID 0x80000007, EDX bit 8) and the kernel offers it as a clock source, else nanoseconds of
/// CLOCK_MONOTONIC. Plain rdtsc: it waits for nothing, so instructions next to it may move across; regions under some
/// 100 ns need a fence of their own.
inline uint64_t ticks() {
#if defined(__x86_64__)
  if (ticks_detail::kTsc) return __builtin_ia32_rdtsc();
#endif
  return ticks_detail::monotonic_ns();
}

/// Nanoseconds of one tick, within 1e-4 of CLOCK_MONOTONIC_RAW. The first call takes about 20 ms to calibrate; call it
/// before what must not be disturbed. Safe from any thread.
double ns_per_tick();
/// Spares the calibration: `ns` is what another process on this machine answers. Only before the first ns_per_tick().
void adopt_ns_per_tick(double ns);

/// Time between two stamps of ticks(), in milliseconds; negative when `to` is the earlier one.
inline double ms_between(uint64_t from, uint64_t to) {
  return static_cast<double>(static_cast<int64_t>(to - from)) * ns_per_tick() * 1e-6;
}

/// "tsc" or "monotonic".
std::string_view tick_source();

}  // namespace kilter
