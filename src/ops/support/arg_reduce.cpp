#include "ops/support/arg_reduce.h"

namespace kilter {
namespace {

int64_t axis_of(const Node& node, const Shape& shape) {
  return normal_axis(node, node.int_attr("axis", 0), static_cast<int64_t>(shape.size()));
}

}  // namespace

void infer_arg(InferContext& ctx) {
  check_types(Numbers{}, ctx, 0);
  const Shape& shape = ctx.shape(0);
  const int64_t axis = axis_of(ctx.node, shape);
  if (shape[static_cast<size_t>(axis)] == 0)
    ctx.error(fmt::format("dimension {} of {} is empty, so there is no index to return", axis, text(shape)));
  ctx.set(0, DType::i64, reduced_shape(shape, {axis}, ctx.node.int_attr("keepdims", 1) != 0));
}

void reference_arg(ReferenceContext& ctx, bool greatest) {
  const bool last = ctx.node.int_attr("select_last_index", 0) != 0;
  const Tensor& x = ctx.in(0);
  const ReductionOffsets offsets = reduction_offsets(x.shape(), {axis_of(ctx.node, x.shape())});
  const auto count = static_cast<int64_t>(offsets.steps.size());
  int64_t* out = ctx.out().data<int64_t>();
  const auto is_nan_at = [&](int64_t i) { return is_float(x.dtype()) && std::isnan(x.as_double(i)); };
  with_order(ctx.node, x, [&](auto compare) {
    for (int64_t start : offsets.starts) {
      int64_t best = 0;
      for (int64_t k = 1; k < count; ++k) {
        const int64_t at = start + offsets.steps[static_cast<size_t>(k)];
        const int64_t top = start + offsets.steps[static_cast<size_t>(best)];
        int sign = compare(at, top);
        if (!greatest && !is_nan_at(at) && !is_nan_at(top)) sign = -sign;
        if (sign > 0 || (last && sign == 0)) best = k;
      }
      *out++ = best;
    }
  });
}

}  // namespace kilter
