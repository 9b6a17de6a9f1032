// Reference kernel of ArgMax and ArgMin.
#pragma once

#include "ops/support/reduction.h"
#include "ops/support/total_order.h"

namespace kilter {

void infer_arg(InferContext& ctx);
/// Computes the index of the greatest element (the least if not `greatest`): the first among equals, or the last with
/// select_last_index. NaN wins over everything, as in numpy.
void reference_arg(ReferenceContext& ctx, bool greatest);

}  // namespace kilter
