// Conversion of tensor elements from one type to another, as the Cast operator defines it.
#pragma once

#include "base/tensor.h"
#include "ops/op.h"
#include "ops/support/builder.h"

namespace kilter {

/// Converts every element of `from` into `to` (same shape). Float to integer truncates toward zero and saturates, and
/// NaN gives 0. Integer to integer wraps. Conversion to boolean is `!= 0`. Conversion to a narrower float rounds to
/// nearest even. Conversion to a narrow type follows narrow_code(), with the attributes saturate and round_mode of the
/// node; an integer to a narrow integer keeps the lowest bits. Numbers are parsed from text as ONNX spells them (throws
/// bad_input naming the text otherwise), and written as the shortest text that reads back as the same number.
void cast_values(const Node& node, const Tensor& from, const Tensor& to);

/// Returns `v` if its elements have the type, otherwise a Cast of it.
ValueId converted(ExpandContext& ctx, ValueId v, DType type);

}  // namespace kilter
