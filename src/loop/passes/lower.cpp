// Runs the passes in the fixed order that the code generator expects. Vectorisation comes first, so that unrolling
// copies the statements that vectorisation makes. Unrolling, folding and hoisting follow. Elementary functions come
// last, so that their long expansions are not walked again.
#include "loop/passes/passes.h"

namespace kilter::loop_passes {

namespace {

/// Verifies a function in debug builds only, since verifying costs as much as a pass. Release builds verify only the
/// functions that schedules supply and those that the code generator receives.
LoopFunc checked(LoopFunc func) {
#ifndef NDEBUG
  verify(func);
#endif
  return func;
}

}  // namespace

LoopFunc lower(const LoopFunc& func, const CpuLimits& limits) {
  verify(func);
  LoopFunc result = checked(vectorise(func, limits));
  result = checked(unroll(result));
  result = checked(simplify(result));
  result = checked(hoist(result));
  result = expand_math(result, limits);
  verify(result);
  return result;
}

}  // namespace kilter::loop_passes
