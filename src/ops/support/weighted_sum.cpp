#include "ops/support/weighted_sum.h"

#include <cmath>

#include "loop/expr.h"
#include "ops/support/elementwise.h"

namespace kilter {

void infer_weighted_sum(InferContext& ctx) {
  const size_t count = ctx.input_count();
  if (count % 2 == 0)
    ctx.error(fmt::format("has {} inputs, expected pairs of values and factors, and a summand", count));
  for (size_t i = 0; i < count; ++i) {
    if (i % 2 == 0 && i + 1 < count)
      check_types(Types<float, int32_t>{}, ctx, i);
    else
      check_types(Types<double>{}, ctx, i);
  }
  ctx.set(0, DType::f32, broadcast_inputs(ctx));
}

std::vector<double> weighted_sums(const ReferenceContext& ctx) {
  const Shape& shape = ctx.out().shape();
  std::vector<double> sums;
  sums.reserve(static_cast<size_t>(ctx.out().elems()));
  const Tensor& last = ctx.in(ctx.inputs.size() - 1);
  for_each_offset<1>(shape, {broadcast_strides(last.shape(), shape)},
                     [&](const std::array<int64_t, 1>& at) { sums.push_back(last.as_double(at[0])); });
  for (size_t term = 0; term + 1 < ctx.inputs.size(); term += 2) {
    const Tensor &x = ctx.in(term), &factor = ctx.in(term + 1);
    size_t i = 0;
    for_each_offset<2>(shape, {broadcast_strides(x.shape(), shape), broadcast_strides(factor.shape(), shape)},
                       [&](const std::array<int64_t, 2>& at) {
                         sums[i] = std::fma(x.as_double(at[0]), factor.as_double(at[1]), sums[i]);
                         ++i;
                       });
  }
  return sums;
}

Expr scalar_weighted_sum(const OpView& op, std::span<const Expr> in) {
  const auto is = [&](size_t i, double value) {
    const Tensor* constant = op.values[i];
    return constant != nullptr && constant->elems() == 1 && constant->as_double(0) == value;
  };
  Expr sum = is(in.size() - 1, 0) ? Expr() : in.back();
  for (size_t term = 0; term + 1 < in.size(); term += 2) {
    const Expr x = cast(DType::f64, in[term]);
    const bool plain = is(term + 1, 1);
    if (sum.defined())
      sum = plain ? x + sum : fma(x, in[term + 1], sum);
    else
      sum = plain ? x : x * in[term + 1];
  }
  return sum;
}

}  // namespace kilter
