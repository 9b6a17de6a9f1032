// Runs the passes in the fixed order that the code generator expects. Vectorisation comes first, so that unrolling
// copies the statements that vectorisation generates. Unrolling, folding and hoisting follow. Elementary functions come
// last, so that their long expansions are not walked again.
#include "loop/numbers.h"
#include "loop/passes/passes.h"

namespace kilter::loop_passes {

namespace {

using Verify = void (*)(const LoopFunc&);

/// Verifies a function in debug builds only, since verifying costs as much as a pass. Release builds verify only the
/// functions that schedules supply and those that the code generator receives.
LoopFunc checked(LoopFunc func, [[maybe_unused]] Verify verify) {
#ifndef NDEBUG
  verify(func);
#endif
  return func;
}

LoopFunc run(const LoopFunc& func, const CpuLimits& limits, Verify verify) {
  verify(func);
  LoopFunc result = checked(vectorise(func, limits), verify);
  result = checked(unroll(result), verify);
  result = checked(simplify(result), verify);
  result = checked(hoist(result), verify);
  result = expand_math(result, limits);
  verify(result);
  return result;
}

}  // namespace

LoopFunc lower(const LoopFunc& func, const CpuLimits& limits) { return run(func, limits, verify); }

LoopFunc lower_shared(const LoopFunc& func, const CpuLimits& limits) { return run(func, limits, verify_structure); }

}  // namespace kilter::loop_passes
