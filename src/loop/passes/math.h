// Elementary functions as expressions: range reduction, polynomials and selects, no branches, no calls. The same
// expansion serves every target and every number of lanes.
//
// Largest error in units of the last place of the correctly rounded result, measured by tests/codegen/math_test.cpp
// over all of f32's range, with and without FMA:
//
//   f32  exp 1.1  log 1.0  tanh 2  sigmoid 2  erf 1.5  expm1 1.5  log1p 1.5  sin cos 1.5  tan 3  asin acos 2  atan 2
//        sinh cosh asinh acosh atanh pow 0.6   mod exact
//   f64  exp expm1 log log1p 2   tanh sigmoid asin acos atan 3   sinh cosh asinh acosh atanh 4
//
// Zeros keep their signs, NaN stays NaN, infinities and values outside the domain answer as C's <math.h> does.
// Subnormal results are right to one unit (sigmoid: to 2^-126). f16 and bf16 compute in f32. pow with the exponents -1,
// 0.5, 1, 2 and 3 becomes a division, a square root and products.
#pragma once

#include "loop/expr.h"

namespace kilter::loop_passes {

/// Whether expand_math knows the operation on this type; where it does not, there is no machine code for it. True for
/// operations that need no expansion. What is missing: sin, cos, tan, erf, pow and mod of f64.
bool has_math(Op op, DType type);

/// `op` of `x` as arithmetic, or undefined when it has an instruction. Throws internal where has_math is false.
Expr expand_unary(Op op, const Expr& x);
/// Likewise for pow and mod of floats.
Expr expand_binary(Op op, const Expr& x, const Expr& y);

}  // namespace kilter::loop_passes
