#include "ops/support/weighted_sum.h"

#include <algorithm>
#include <cmath>
#include <utility>

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

std::optional<double> magnitudes_beside_one(const OpView& op) {
  const auto most = [](const Tensor& t) {
    double all = 0;
    for (int64_t i = 0; i < t.elems(); ++i) all = std::max(all, std::abs(t.as_double(i)));
    return all;
  };
  const size_t last = op.values.size() - 1;
  if (op.values[last] == nullptr) return std::nullopt;
  double sum = most(*op.values[last]), largest = 0;
  bool unbounded = false;
  for (size_t term = 0; term < last; term += 2) {
    const Layout& layout = op.inputs[term].layout;
    if (op.values[term + 1] == nullptr || (layout.stored != DType::u8 && std::exchange(unbounded, true)))
      return std::nullopt;
    if (layout.stored != DType::u8) continue;
    const double product = most(*op.values[term + 1]) * std::max<int>(layout.zero, 255 - layout.zero);
    sum += product;
    largest = std::max(largest, product);
  }
  return unbounded ? sum : sum - largest;
}

Expr integer_in_low_bits(const Expr& whole) { return cast(DType::f32, cast(DType::i32, bitcast(DType::i64, whole))); }

namespace {

/// The f32 from which an i32 was converted, if it was: sums of integers in f32 are exact.
const Expr* exact_f32(const Expr& x) {
  const bool made = x->kind == ExprKind::cast && x.elem() == DType::i32 && x->args[0].elem() == DType::f32;
  return made ? &x->args[0] : nullptr;
}

/// An operand in f64. Reverses integer_in_low_bits(), and avoids the f32 between an integer and f64.
Expr real(const Expr& x) {
  if (const Expr* sum = exact_f32(x)) return cast(DType::f64, *sum);
  if (x->kind != ExprKind::cast || x.elem() != DType::f32) return cast(DType::f64, x);
  const Expr& integer = x->args[0];
  if (integer.elem() != DType::i32 || integer->kind != ExprKind::cast || integer->args[0]->kind != ExprKind::bitcast)
    return cast(DType::f64, integer);
  const Expr& whole = integer->args[0]->args[0];
  return whole.elem() == DType::f64 ? whole - imm(DType::f64, kWhole) : cast(DType::f64, integer);
}

Expr single(const Expr& x) {
  const Expr* sum = exact_f32(x);
  return sum != nullptr ? *sum : cast(DType::f32, x);
}

/// x_0 * m_0 + x_1 * m_1 + ... + c + by in the type that `convert` returns.
template <class Convert>
Expr sum_of(const OpView& op, std::span<const Expr> in, DType type, double by, Convert convert) {
  const auto is = [&](size_t i, double value) {
    const Tensor* constant = op.values[i];
    return constant != nullptr && constant->elems() == 1 && constant->as_double(0) == value;
  };
  Expr sum;
  if (by != 0 || !is(in.size() - 1, 0)) sum = cast(type, in.back() + imm(DType::f64, by));
  for (size_t term = 0; term + 1 < in.size(); term += 2) {
    const Expr x = convert(in[term]), factor = cast(type, in[term + 1]);
    const bool plain = is(term + 1, 1);
    if (sum.defined())
      sum = plain ? x + sum : fma(x, factor, sum);
    else
      sum = plain ? x : x * factor;
  }
  return sum;
}

}  // namespace

Expr scalar_weighted_sum(const OpView& op, std::span<const Expr> in) { return sum_of(op, in, DType::f64, 0, real); }
Expr scalar_weighted_sum_f32(const OpView& op, std::span<const Expr> in, double by) {
  return sum_of(op, in, DType::f32, by, single);
}

}  // namespace kilter
