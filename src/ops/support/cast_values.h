// Conversion of tensor elements from one type to another, as the Cast operator defines it.
#pragma once

#include "base/tensor.h"
#include "ops/op.h"

namespace kilter {

/// Every element of `from` converted into `to` (same shape). Float to integer truncates toward zero and saturates, NaN
/// gives 0; integer to integer wraps; to boolean is `!= 0`; to a narrower float rounds to nearest even; numbers from
/// text as ONNX spells them (bad_input naming the text otherwise), numbers to text in the shortest form that reads
/// back.
void cast_values(const Node& node, const Tensor& from, const Tensor& to);

}  // namespace kilter
