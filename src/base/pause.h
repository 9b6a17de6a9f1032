// The hint that a spin loop gives the processor between two checks.
#pragma once

namespace kilter {

/// Tells the processor that this thread is spinning, so that the sibling hardware thread gets its resources.
inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace kilter
