// The fixed order that the code generator wants: vector code first, since it makes statements that unroll copies; then
// copies, folding, motion out of loops; elementary functions last, so that their long expansions are not walked again.
#include "loop/passes/passes.h"

namespace kilter::loop_passes {

LoopFunc lower(const LoopFunc& func, const TargetLimits& limits) {
  LoopFunc result = vectorise(func, limits);
  verify(result);
  result = unroll(result);
  verify(result);
  result = simplify(result);
  verify(result);
  result = hoist(result);
  verify(result);
  result = expand_math(result, limits);
  verify(result);
  return result;
}

}  // namespace kilter::loop_passes
