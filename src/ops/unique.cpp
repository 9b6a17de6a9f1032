#include <algorithm>

#include "ops/support/indexing.h"
#include "ops/support/total_order.h"

namespace kilter {
namespace {

/// The tensor as [outer, extent, inner] with `extent` slices to compare, or as flat elements without axis.
struct View {
  size_t axis = 0;
  int64_t outer = 1;
  int64_t extent = 1;
  int64_t inner = 1;
};

View view_of(const Node& node, const Shape& shape) {
  View view;
  if (!node.has_attr("axis")) {
    view.extent = elems(shape);
    return view;
  }
  view.axis = static_cast<size_t>(normal_axis(node, node.int_attr("axis", 0), static_cast<int64_t>(shape.size())));
  view.outer = product(shape, 0, view.axis);
  view.extent = shape[view.axis];
  view.inner = product(shape, view.axis + 1, shape.size());
  return view;
}

struct Groups {
  std::vector<int64_t> first;    ///< first occurrence of each distinct slice, in output order
  std::vector<int64_t> inverse;  ///< position of every slice in the output
  std::vector<int64_t> counts;
};

/// Compares slices a and b by their elements in row-major order.
template <class Compare>
int order_slices(const View& view, const Compare& compare, int64_t a, int64_t b) {
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t i = 0; i < view.inner; ++i) {
      const int64_t base = o * view.extent;
      const int sign = compare((base + a) * view.inner + i, (base + b) * view.inner + i);
      if (sign != 0) return sign;
    }
  }
  return 0;
}

Groups groups_of(const Node& node, const Tensor& x) {
  const View view = view_of(node, x.shape());
  std::vector<int64_t> sorted = all_axes(view.extent);
  std::vector<std::vector<int64_t>> runs;
  with_order(node, x, [&](auto compare) {
    const auto slices = [&](int64_t a, int64_t b) { return order_slices(view, compare, a, b); };
    std::stable_sort(sorted.begin(), sorted.end(), [&](int64_t a, int64_t b) { return slices(a, b) < 0; });
    for (int64_t slice : sorted) {
      if (runs.empty() || slices(runs.back().front(), slice) != 0) runs.emplace_back();
      runs.back().push_back(slice);
    }
  });
  if (node.int_attr("sorted", 1) == 0) std::sort(runs.begin(), runs.end());
  Groups groups;
  groups.inverse.resize(static_cast<size_t>(view.extent));
  for (size_t k = 0; k < runs.size(); ++k) {
    groups.first.push_back(runs[k].front());
    groups.counts.push_back(static_cast<int64_t>(runs[k].size()));
    for (int64_t slice : runs[k]) groups.inverse[static_cast<size_t>(slice)] = static_cast<int64_t>(k);
  }
  return groups;
}

void infer(InferContext& ctx) {
  const Groups groups = groups_of(ctx.node, ctx.needed(0));
  const auto count = static_cast<int64_t>(groups.first.size());
  Shape shape = ctx.node.has_attr("axis") ? ctx.shape(0) : Shape{count};
  shape[view_of(ctx.node, ctx.shape(0)).axis] = count;
  ctx.set(0, ctx.dtype(0), std::move(shape));
  if (ctx.outputs.size() > 1) ctx.set(1, DType::i64, {count});
  if (ctx.outputs.size() > 2) ctx.set(2, DType::i64, {static_cast<int64_t>(groups.inverse.size())});
  if (ctx.outputs.size() > 3) ctx.set(3, DType::i64, {count});
}

void reference(ReferenceContext& ctx) {
  const View view = view_of(ctx.node, ctx.in(0).shape());
  const Groups groups = groups_of(ctx.node, ctx.in(0));
  const auto store = [&](size_t output, const std::vector<int64_t>& values) {
    if (ctx.wants(output)) std::copy(values.begin(), values.end(), ctx.out(output).data<int64_t>());
  };
  store(1, groups.first);
  store(2, groups.inverse);
  store(3, groups.counts);
  if (!ctx.wants(0)) return;
  int64_t to = 0;
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t slice : groups.first) {
      copy_elements(ctx.in(0), (o * view.extent + slice) * view.inner, ctx.out(), to, view.inner);
      to += view.inner;
    }
  }
}

}  // namespace

KILTER_OP(Unique){
    .name = "Unique",
    .since = 11,
    .max_outputs = 4,
    .attrs = {{"axis", "int", ""}, {"sorted", "int", "1"}},
    .summary =
        "y = the distinct slices of x along axis (elements without axis), ascending or by first occurrence; outputs 1 "
        "to 3: their first index, the place in y of every slice of x, and how often each slice of y occurs. The "
        "shape depends on the data.",
    .infer = infer,
    .reference = reference,
    .shape_operands = {0},
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[6]=2,1,1,3,4,3 | | | 4", "f32[6]=2,1,1,3,4,3 | sorted=0 | | 4",
              "i64[3,3]=1,0,0,1,0,0,2,3,4 | axis=0 | | 4",
              "f16[2,4,2]=1,1,0,1,2,1,0,1,1,1,0,1,2,1,0,1 | axis=-2 | 11 | 4", "u8[1]=7"},
};

}  // namespace kilter
