// CumSum and CumProd: running folds along one axis.
#pragma once

#include "ops/support/indexing.h"
#include "ops/support/reduction.h"

namespace kilter {

/// Output 0 is like input 0. Input 1 is one i32 or i64: the axis.
void infer_cumulative(InferContext& ctx);

/// Computes y[k] = start folded with x[0..k] along the axis (without x[k] if exclusive; from the other end if reverse).
/// Accumulates in Accumulator<T>, which is double for floats.
template <class F>
void reference_cumulative(ReferenceContext& ctx, int start, F fold) {
  const Shape& shape = ctx.in(0).shape();
  const auto rank = static_cast<int64_t>(shape.size());
  const auto axis = static_cast<size_t>(normal_axis(ctx.node, ctx.in(1).as_int(0), rank));
  const int64_t stride = product(shape, axis + 1, shape.size());
  const bool exclusive = ctx.node.int_attr("exclusive", 0) != 0;
  const bool reverse = ctx.node.int_attr("reverse", 0) != 0;
  const ReductionOffsets rows = reduction_offsets(shape, {static_cast<int64_t>(axis)});
  visit_types(Numbers{}, ctx.node, ctx.in(0).dtype(), [&]<class T>() {
    using A = Accumulator<T>;
    for (int64_t first : rows.starts) {
      A total = static_cast<A>(start);
      for (int64_t k = 0; k < shape[axis]; ++k) {
        const int64_t at = first + (reverse ? shape[axis] - 1 - k : k) * stride;
        const A next = fold(total, static_cast<A>(widen(ctx.in(0).data<T>()[at])));
        ctx.out().data<T>()[at] = narrow<T>(exclusive ? total : next);
        total = next;
      }
    }
  });
}

}  // namespace kilter
