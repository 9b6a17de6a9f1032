// Tests of floats, the narrow ones included: IsNaN, IsInf.
#pragma once

#include "base/narrow.h"
#include "ops/support/elementwise.h"

namespace kilter {

/// Output 0 has the shape of input 0, which has any type of floats, and boolean elements.
inline void infer_float_predicate(InferContext& ctx) {
  const DType type = ctx.dtype(0);
  if (!is_narrow(type) || is_narrow_integer(type)) check_types(Floats{}, ctx, 0);
  infer_predicate(ctx);
}

/// Calls f with each element, those of a narrow type as f32.
template <class F>
void reference_float_predicate(ReferenceContext& ctx, F f) {
  if (is_narrow(ctx.in(0).dtype())) ctx.inputs[0] = ctx.in(0).widened();
  reference_predicate<Floats>(ctx, f);
}

}  // namespace kilter
