// Reductions over axes: which axes, the remaining shape, and the reference kernel that the Reduce* operators share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ops/support/elementwise.h"
#include "ops/support/formulas.h"
#include "ops/support/operands.h"
#include "ops/support/overflow.h"

namespace kilter {

/// Returns the axes that a Reduce* node reduces, sorted and non-negative: from input 1, else from attribute `axes`. If
/// these are missing or empty, returns all axes, or none if noop_with_empty_axes is set. Context is InferContext,
/// ReferenceContext or OpView.
template <class Context>
std::vector<int64_t> reduced_axes(const Context& ctx) {
  const auto rank = static_cast<int64_t>(shape_of(ctx, 0).size());
  const auto given = ints_of(ctx, 1, "axes");
  if (!given || given->empty()) {
    return ctx.node.int_attr("noop_with_empty_axes", 0) != 0 ? std::vector<int64_t>{} : all_axes(rank);
  }
  std::vector<int64_t> axes = normal_axes(ctx.node, *given, rank);
  std::sort(axes.begin(), axes.end());
  return axes;
}

/// Returns `shape` with the (sorted) axes set to 1, or removed.
Shape reduced_shape(const Shape& shape, const std::vector<int64_t>& axes, bool keepdims);

/// Output 0 has the element type of input 0 and the reduced shape. The element type must be in the list.
template <class List>
void infer_reduce(InferContext& ctx) {
  check_types(List{}, ctx, 0);
  const bool keepdims = ctx.node.int_attr("keepdims", 1) != 0;
  ctx.set(0, ctx.dtype(0), reduced_shape(ctx.shape(0), reduced_axes(ctx), keepdims));
}

/// Element offsets of a reduction: output element o is computed from the input elements starts[o] + steps[k] for all k.
struct ReductionOffsets {
  std::vector<int64_t> starts;
  std::vector<int64_t> steps;
};
ReductionOffsets reduction_offsets(const Shape& shape, const std::vector<int64_t>& axes);

/// The type in which sums of T are accumulated: double for floats, 64 bits for integers (which wrap), bool for bool.
template <class T>
using Accumulator = std::conditional_t<
    std::is_same_v<T, bool>, bool,
    std::conditional_t<std::is_integral_v<T>, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>, double>>;

/// Adds one more value of T to a sum: integers wrap, floats overflow (overflow.h).
template <class T>
Accumulator<T> added(Accumulator<T> total, Accumulator<T> x) {
  if constexpr (std::is_same_v<Accumulator<T>, double>) {
    return in_range_of_sums(DTypeOf<T>::value, total + x);
  } else {
    return wrap_add(total, x);
  }
}

/// The least and the greatest value of a type, as values of its accumulator; infinities for floats.
template <class T>
Accumulator<T> least() {
  if constexpr (std::is_integral_v<T>) {
    return std::numeric_limits<T>::min();
  } else {
    return -std::numeric_limits<double>::infinity();
  }
}
template <class T>
Accumulator<T> greatest() {
  if constexpr (std::is_integral_v<T>) {
    return std::numeric_limits<T>::max();
  } else {
    return std::numeric_limits<double>::infinity();
  }
}

/// Computes out = finish(step(... step(start, x0) ..., xn-1), n) over the reduced axes. `fold.template operator()<T>()`
/// returns an object with start, step and finish for element type T. Values are Accumulator<T>.
template <class List, class Make>
void reference_reduce(ReferenceContext& ctx, Make make) {
  const ReductionOffsets offsets = reduction_offsets(ctx.in(0).shape(), reduced_axes(ctx));
  const auto count = static_cast<int64_t>(offsets.steps.size());
  visit_types(List{}, ctx.node, ctx.in(0).dtype(), [&]<class T>() {
    using A = Accumulator<T>;
    const auto fold = make.template operator()<T>();
    const T* in = ctx.in(0).data<T>();
    T* out = ctx.out().data<T>();
    for (int64_t start : offsets.starts) {
      A total = fold.start;
      for (int64_t step : offsets.steps) total = fold.step(total, static_cast<A>(widen(in[start + step])));
      *out++ = narrow<T>(fold.finish(total, count));
    }
  });
}

template <class A, class Step, class Finish>
struct Fold {
  A start;
  Step step;
  Finish finish;
};
template <class A, class Step, class Finish>
Fold<A, Step, Finish> fold_of(A start, Step step, Finish finish) {
  return {start, step, finish};
}
template <class A, class Step>
auto fold_of(A start, Step step) {
  return fold_of(start, step, [](A total, int64_t) { return total; });
}

/// Computes out = f(list of the reduced elements as double), stored in the output's type (integers truncate and
/// saturate).
template <class F>
void reference_reduce_double(ReferenceContext& ctx, F f) {
  const ReductionOffsets offsets = reduction_offsets(ctx.in(0).shape(), reduced_axes(ctx));
  std::vector<double> results;
  std::vector<double> values(offsets.steps.size());
  for (int64_t start : offsets.starts) {
    for (size_t k = 0; k < values.size(); ++k) values[k] = ctx.in(0).as_double(start + offsets.steps[k]);
    results.push_back(f(static_cast<const std::vector<double>&>(values)));
  }
  store_doubles(ctx.out(), results);
}

/// Adds the reduction `op` of `x` over the axes of the node that is being expanded.
ValueId reduce_as(ExpandContext& ctx, std::string_view op, ValueId x, bool keepdims);
/// Casts x to the type in which a composite reduction computes: f32 for f16 and bf16, f64 for integers if `fractional`.
ValueId widened(ExpandContext& ctx, ValueId x, bool fractional);
/// Casts y back to `type` if its type differs.
ValueId narrowed(ExpandContext& ctx, ValueId y, DType type);

/// Returns the attributes of every Reduce* operator.
std::vector<AttrSpec> reduce_attrs();

}  // namespace kilter
