#include "ops/support/window_function.h"

#include <cmath>
#include <numbers>

#include "ops/support/dtype_attr.h"
#include "ops/support/elementwise.h"
#include "ops/support/operands.h"

namespace kilter {

void infer_window_function(InferContext& ctx) {
  check_types(Types<int32_t, int64_t>{}, ctx, 0);
  const Shape shape = {operand_int(ctx.node, ctx.needed(0), "size")};
  check_shape(ctx.node, shape);
  const DType type = dtype_attr(ctx.node, "output_datatype", DType::f32);
  if (!is_float(type) && !is_integer(type))
    ctx.error(fmt::format("output_datatype is {}, expected a number", name(type)));
  ctx.set(0, type, shape);
}

void reference_window_function(ReferenceContext& ctx, double c0, double c1, double c2) {
  const int64_t size = ctx.out().elems();
  const int64_t period = ctx.node.int_attr("periodic", 1) != 0 ? size : size - 1;
  std::vector<double> values(static_cast<size_t>(size), 1);
  for (int64_t n = 0; n < size && period > 0; ++n) {
    const double t = 2 * std::numbers::pi * static_cast<double>(n) / static_cast<double>(period);
    values[static_cast<size_t>(n)] = c0 + c1 * std::cos(t) + c2 * std::cos(2 * t);
  }
  store_doubles(ctx.out(), values);
}

}  // namespace kilter
