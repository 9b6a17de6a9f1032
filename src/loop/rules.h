// Identities that hold for every value, applied where an operation is built.
#pragma once

#include "loop/expr.h"

namespace kilter::rules {

/// What `op` of two checked operands of one type simplifies to, or undefined. Not both operands are constants.
/// Integers: x+0, x*1, x*0, x-x, constants to the right and merged, (x*c1)*c2, (x+c1)+c2, x-c as x+(-c); floats only
/// what is exact for every value (x*1, x/1, x-0); broadcasts and ramps move outward.
Expr simplify_binary(Op op, const Expr& a, const Expr& b);

}  // namespace kilter::rules
