#include "ops/support/cumulative.h"

namespace kilter {

void infer_cumulative(InferContext& ctx) {
  check_types(Numbers{}, ctx, 0);
  check_indices(ctx, 1);
  if (elems(ctx.shape(1)) != 1) ctx.error(fmt::format("axis has {} elements, expected 1", elems(ctx.shape(1))));
  infer_same(ctx);
}

}  // namespace kilter
