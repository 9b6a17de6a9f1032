// ArgMax and ArgMin.
#pragma once

#include "ops/support/reduction.h"
#include "ops/support/total_order.h"

namespace kilter {

void infer_arg(InferContext& ctx);
/// Index of the greatest (least when not `greatest`) element; the first of equals, the last with select_last_index. A
/// NaN wins over everything, as in numpy.
void reference_arg(ReferenceContext& ctx, bool greatest);

}  // namespace kilter
