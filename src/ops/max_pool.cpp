#include <limits>

#include "ops/support/elementwise.h"
#include "ops/support/pool_reference.h"

namespace kilter {
namespace {

using Pooled = Types<float, double, Half, BFloat16, int8_t, uint8_t>;

void infer(InferContext& ctx) {
  check_types(Pooled{}, ctx, 0);
  const Shape out = pooled_shape(ctx.shape(0), pool_window(ctx.node, ctx.shape(0)));
  ctx.set(0, ctx.dtype(0), out);
  if (ctx.outputs.size() > 1) ctx.set(1, DType::i64, out);
}

/// Converts a row-major position in a plane of shape `extents` to one with the first axis fastest.
int64_t column_major(int64_t position, const std::vector<int64_t>& extents) {
  int64_t result = 0;
  for (size_t a = extents.size(); a-- > 0;) {
    int64_t stride = 1;
    for (size_t b = 0; b < a; ++b) stride *= extents[b];
    result += position % extents[a] * stride;
    position /= extents[a];
  }
  return result;
}

template <class C>
constexpr C lowest() {
  return std::numeric_limits<C>::has_infinity ? -std::numeric_limits<C>::infinity() : std::numeric_limits<C>::lowest();
}

template <class T>
void max_pool(ReferenceContext& ctx, const Window& window) {
  const T* x = ctx.in(0).data<T>();
  T* y = ctx.wants(0) ? ctx.out(0).data<T>() : nullptr;
  int64_t* indices = ctx.wants(1) ? ctx.out(1).data<int64_t>() : nullptr;
  const bool columns = ctx.node.int_attr("storage_order", 0) != 0;
  const int64_t planes = ctx.in(0).shape()[0] * ctx.in(0).shape()[1];
  for_each_window(window, [&](int64_t output, std::span<const int64_t> inputs, int64_t) {
    for (int64_t p = 0; p < planes; ++p) {
      const T* plane = x + p * window.in_elems();
      Compute<T> best = lowest<Compute<T>>();
      int64_t where = inputs.empty() ? 0 : inputs[0];
      for (const int64_t i : inputs) {
        if (!(widen(plane[i]) > best)) continue;
        best = widen(plane[i]);
        where = i;
      }
      const int64_t at = p * window.out_elems() + output;
      if (y != nullptr) y[at] = narrow<T>(best);
      if (indices != nullptr) {
        indices[at] = p * window.in_elems() + (columns ? column_major(where, window.in) : where);
      }
    }
  });
}

void reference(ReferenceContext& ctx) {
  const Window window = pool_window(ctx.node, ctx.in(0).shape());
  visit_types(Pooled{}, ctx.node, ctx.in(0).dtype(), [&]<class T>() { max_pool<T>(ctx, window); });
}

}  // namespace

KILTER_OP(MaxPool){
    .name = "MaxPool",
    .family = Family::pool,
    .combiner = Combiner::max,
    .max_outputs = 2,
    .attrs = {{"auto_pad", "string", "NOTSET"},
              {"ceil_mode", "int", "0"},
              {"dilations", "ints", ""},
              {"kernel_shape", "ints", "required"},
              {"pads", "ints", ""},
              {"storage_order", "int", "0"},
              {"strides", "ints", ""}},
    .summary =
        "Largest element under a window that slides over x [N, C, d0, ...], ignoring padding and NaN (-inf or the "
        "lowest integer if nothing is left); optionally its flat index in x.",
    .infer = infer,
    .reference = reference,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[1,3,9,13] | kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]",
              "f32[2,17,7,7] | kernel_shape=[2,2] strides=[2,2]",
              "f32[1,5,3,3] | kernel_shape=[3,2] dilations=[3,4] pads=[2,1,2,1]",
              "f32[1,33,10,9] | kernel_shape=[3,2] strides=[2,3] pads=[1,0,0,1] ceil_mode=1",
              "f32[1,7,12,11] | kernel_shape=[3,3] dilations=[2,3]",
              "f32[1,4,15] | kernel_shape=[5] strides=[3] auto_pad=SAME_UPPER | 8",
              "f32[1,5,5,6,7] | kernel_shape=[2,3,2] strides=[1,2,3]", "u8[1,3,8,8] | kernel_shape=[3,3]"},
};

}  // namespace kilter
