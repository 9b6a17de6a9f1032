// Elementary functions as expressions: range reduction, polynomials and selects, without branches or calls. The same
// expansion serves every target and every number of lanes.
//
// Largest error in units of the last place of the correctly rounded result, measured by tests/codegen/math_test.cpp
// over all of f32's range, with and without FMA:
//
//   f32  exp log 1   erf 1.1   log1p 0.8   expm1 1.5   tanh sigmoid 2.1   sin cos 1.6   tan 3.5   asin 2.3   acos 1.1
//        atan 2.1   sinh cosh asinh acosh atanh pow 0.51   mod exact
//   f64  exp log 1   log1p 1   expm1 2.1   tanh 2.7   sigmoid 2.1   asin 2.3   acos 1.3   atan 2.4   sinh cosh 2.9
//        asinh 1.7   acosh 1.4   atanh 1.9
//
// Zeros keep their signs, NaN stays NaN, and infinities and values outside the domain give the results of C's <math.h>.
// Subnormal results are right to one unit (sigmoid: to 2^-126). exp(min(0, x)) of f32 has the accuracy of exp, but may
// be 0 if the result is subnormal, because arithmetic with subnormals is slow. f16 and bf16 compute in f32. pow with
// the exponents -1, 0.5, 1, 2 and 3 becomes a division, a square root or products.
#pragma once

#include "loop/expr.h"
#include "target/target.h"

namespace kilter::loop_passes {

/// Returns whether the operation can be compiled for this type. True for operations that need no expansion. False for
/// sin, cos, tan, erf, pow and mod of f64.
bool has_math(Op op, DType type);

/// Returns `op` of `x` as arithmetic, or undefined when it has an instruction. Throws internal if has_math is false.
Expr expand_unary(Op op, const Expr& x);
/// Expands pow and mod of floats in the same way.
Expr expand_binary(Op op, const Expr& x, const Expr& y);
/// Returns whether the target has an instruction for this dot().
bool has_dot(const ExprNode& dot, const CpuLimits& limits);
/// Returns dot() of expr.h as multiply-adds.
Expr expand_dot(const Expr& a, const Expr& b, Expr acc);

}  // namespace kilter::loop_passes
