// Loops of runtime kernels that the compiler vectorises for the widest registers it may use on this processor.
#pragma once

#include "base/cpu_info.h"

namespace kilter {

#if defined(__x86_64__)
template <class F>
__attribute__((target("avx512f,avx512vl,prefer-vector-width=512"), noinline)) void with_avx512(F& f) {
  f();
}
template <class F>
__attribute__((target("avx2"), noinline)) void with_avx2(F& f) {
  f();
}
#endif

/// Calls f(), compiled for AVX-512 or AVX2 where the processor has it. `f` is a lambda with KILTER_WIDE after its
/// parameters, and so are those that it calls; loops in other functions that it calls keep their own target.
#define KILTER_WIDE __attribute__((always_inline))
template <class F>
void run_wide(F f) {
#if defined(__x86_64__)
  static const bool avx512 = cpu_has("avx512f") && cpu_has("avx512vl"), avx2 = cpu_has("avx2");
  if (avx512) return with_avx512(f);
  if (avx2) return with_avx2(f);
#endif
  f();
}

}  // namespace kilter
