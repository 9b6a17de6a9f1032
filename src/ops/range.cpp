#include <cmath>

#include "ops/support/elementwise.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

using Listed = Types<float, double, Half, BFloat16, int16_t, int32_t, int64_t>;
constexpr double kMostElems = 1099511627776.0;  // 2^40, the limit for a tensor

/// Returns max(ceil((limit - start) / delta), 0).
template <class T>
int64_t count_of(const Node& node, const Tensor& first, const Tensor& last, const Tensor& step) {
  const auto start = widen(*first.data<T>());
  const auto limit = widen(*last.data<T>());
  const auto delta = widen(*step.data<T>());
  if (!(delta != 0)) node_error(node, "delta must not be 0");
  if constexpr (std::is_integral_v<T>) {
    const auto wide = [](T v) { return static_cast<__int128_t>(v); };
    const __int128_t span = delta > 0 ? wide(limit) - wide(start) : wide(start) - wide(limit);
    const __int128_t size = delta > 0 ? wide(delta) : -wide(delta);
    const __int128_t count = span > 0 ? (span + size - 1) / size : 0;
    if (count > static_cast<__int128_t>(kMostElems)) node_error(node, "has more than 2^40 elements");
    return static_cast<int64_t>(count);
  } else {
    const double count = std::ceil((double{limit} - double{start}) / double{delta});
    if (!(count <= kMostElems)) {
      node_error(node,
                 fmt::format("from {} to {} by {} has {} elements; the limit is 2^40", start, limit, delta, count));
    }
    return count > 0 ? static_cast<int64_t>(count) : 0;
  }
}

void infer(InferContext& ctx) {
  check_types(Listed{}, ctx, 0);
  check_same_dtype(ctx);
  for (size_t i = 0; i < 3; ++i) {
    if (elems(ctx.shape(i)) != 1)
      ctx.error(fmt::format("input {} has {} elements, expected 1", i, elems(ctx.shape(i))));
  }
  int64_t count = 0;
  visit_types(Listed{}, ctx.node, ctx.dtype(0),
              [&]<class T>() { count = count_of<T>(ctx.node, ctx.needed(0), ctx.needed(1), ctx.needed(2)); });
  set_same_dtype(ctx, {count});
}

void reference(ReferenceContext& ctx) {
  visit_types(Listed{}, ctx.node, ctx.in(0).dtype(), [&]<class T>() {
    const auto start = widen(*ctx.in(0).data<T>());
    const auto delta = widen(*ctx.in(2).data<T>());
    for (int64_t i = 0; i < ctx.out().elems(); ++i) {
      if constexpr (std::is_integral_v<T>) {
        ctx.out().data<T>()[i] = wrap_add<T>(start, wrap_mul<T>(static_cast<T>(i), delta));
      } else {
        ctx.out().data<T>()[i] = narrow<T>(double{start} + static_cast<double>(i) * double{delta});
      }
    }
  });
}

}  // namespace

KILTER_OP(Range){
    .name = "Range",
    .since = 11,
    .min_inputs = 3,
    .max_inputs = 3,
    .attrs = {{"stash_type", "int", "1"}},
    .summary =
        "y[i] = start + i * delta for max(ceil((limit - start) / delta), 0) elements; inputs start, limit, delta.",
    .infer = infer,
    .reference = reference,
    .shape_operands = {0, 1, 2},
    .cases = {"f32[]=1 f32[]=5 f32[]=0.7", "i64[]=10 i64[]=4 i64[]=-2", "i32[]=0 i32[]=17 i32[]=3 | | 11",
              "i64[]=3 i64[]=3 i64[]=1", "f16[]=1 f16[]=4 f16[]=0.5"},
};

}  // namespace kilter
