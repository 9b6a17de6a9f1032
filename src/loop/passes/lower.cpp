// The fixed order that the code generator wants: vector code first, since it makes statements that unroll copies; then
// copies, folding, motion out of loops; elementary functions last, so that their long expansions are not walked again.
#include "loop/passes/passes.h"

namespace kilter::loop_passes {

namespace {

/// Release builds verify what a schedule hands in and what the code generator gets; the passes between are checked in
/// debug builds only, since verifying costs as much as a pass.
LoopFunc checked(LoopFunc func) {
#ifndef NDEBUG
  verify(func);
#endif
  return func;
}

}  // namespace

LoopFunc lower(const LoopFunc& func, const TargetLimits& limits) {
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
