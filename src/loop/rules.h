// Identities that are true for all values, applied when an operation is built.
#pragma once

#include "loop/expr.h"

namespace kilter::rules {

/// Returns the simplified form of `op` on two checked operands of one type, or undefined if there is none. At most one
/// operand is a constant. Integers: x+0, x*1, x*0, x-x, constants moved to the right and merged, (x*c1)*c2, (x+c1)+c2,
/// x-c as x+(-c). Floats: only identities that are exact for every value (x*1, x/1, x-0). Broadcasts and ramps move
/// outward.
Expr simplify_binary(Op op, const Expr& a, const Expr& b);

}  // namespace kilter::rules
