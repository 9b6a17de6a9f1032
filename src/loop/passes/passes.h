// Passes over one LoopFunc, one file each. Every pass answers a new function with the same meaning; `lower` is the
// fixed order that the code generator wants.
#pragma once

#include "loop/loop.h"
#include "target/target.h"

namespace kilter::loop_passes {

/// Folds constants, normalises affine sums, removes loops of one iteration and branches on constants.
LoopFunc simplify(const LoopFunc& func);
/// Replaces LoopKind::unrolled loops by copies of their body.
LoopFunc unroll(const LoopFunc& func);
/// Replaces LoopKind::vector loops by vector code of `lanes` lanes: indices affine in the variable become vector loads
/// (coefficient 1), broadcasts (0) or gathers; the remainder is one masked vector (targets with masks) or scalar code.
LoopFunc vectorise(const LoopFunc& func, const TargetLimits& limits);
/// Moves lets, loads of inputs and pure expressions that do not depend on a loop's variable or registers out of it.
LoopFunc hoist(const LoopFunc& func);
/// Expands exp, log, tanh, erf, sigmoid, sin, ... into arithmetic (see math.h), leaving what the target has.
LoopFunc expand_math(const LoopFunc& func, const TargetLimits& limits);

/// vectorise, unroll, simplify, hoist, expand_math; verified before and after (debug builds: after each).
LoopFunc lower(const LoopFunc& func, const TargetLimits& limits);

}  // namespace kilter::loop_passes
