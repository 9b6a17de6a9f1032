// What a loop that waits for another thread does between two looks.
#pragma once

namespace kilter {

/// Tells the processor that this is a wait, so that its other hardware thread and its power go elsewhere.
inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace kilter
