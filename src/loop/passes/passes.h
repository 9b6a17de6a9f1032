// Passes over one LoopFunc, one file each. Every pass returns a new function with the same meaning. `lower` runs them
// in the fixed order that the code generator expects.
#pragma once

#include "loop/loop.h"
#include "target/target.h"

namespace kilter::loop_passes {

/// Folds constants, normalises affine sums, and removes loops of one iteration and branches on constants.
LoopFunc simplify(const LoopFunc& func);
/// Replaces LoopKind::unrolled loops by copies of their body.
LoopFunc unroll(const LoopFunc& func);
/// Replaces LoopKind::vector loops by vector code of `lanes` lanes. Loads whose indices are affine in the variable
/// become vector loads (coefficient 1), broadcasts (coefficient 0) or gathers. The remainder is one masked vector
/// (targets with masks) or scalar code.
LoopFunc vectorise(const LoopFunc& func, const CpuLimits& limits);
/// Moves lets, loads of inputs and pure expressions that do not depend on a loop's variable or registers out of the
/// loop.
LoopFunc hoist(const LoopFunc& func);
/// Expands exp, log, tanh, erf, sigmoid, sin, ..., and dot() into arithmetic (see math.h). Keeps operations that the
/// target has.
LoopFunc expand_math(const LoopFunc& func, const CpuLimits& limits);

/// Runs vectorise, unroll, simplify, hoist and expand_math. Verifies before and
/// after (debug builds: after each pass).
LoopFunc lower(const LoopFunc& func, const CpuLimits& limits);
/// As lower(), for a function whose numbers are read from memory (loop/numbers.h): verifies its structure only.
LoopFunc lower_shared(const LoopFunc& func, const CpuLimits& limits);

}  // namespace kilter::loop_passes
