// Parts of the expansions of quantised operators into arithmetic on integers: IntegerConv, IntegerMatMul and
// RoundedSum, whose operands are codes without their zero points.
#pragma once

#include <vector>

#include "ops/support/builder.h"

namespace kilter {

/// Returns input `x` minus input `zero`, f32. The zero point may be omitted; if it has several elements, it is reshaped
/// to `zero_shape`, which broadcasts to x.
ValueId integers(ExpandContext& ctx, size_t x, size_t zero, const Shape& zero_shape = {});

/// Returns a value in f64, reshaped to `shape` if it has several elements.
ValueId in_f64(ExpandContext& ctx, ValueId value, const Shape& shape = {});

/// Returns the quantised tensor of sum_i terms[2i] * terms[2i+1] + summand, with codes of type `type` and the zero
/// point of input `zero`, which may be omitted. Factors and summand are f64 and already divided by the scale of the
/// result.
ValueId quantised(ExpandContext& ctx, std::vector<ValueId> terms, ValueId summand, size_t zero, DType type);
/// The same without a summand.
ValueId quantised(ExpandContext& ctx, std::vector<ValueId> terms, size_t zero, DType type);

}  // namespace kilter
