#include "ops/support/indexing.h"

namespace kilter {
namespace {

/// The tensor as [outer, extent, inner], selected along the middle dimension; flat if there is no axis.
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

/// Returns the indices for which the condition is true. Indices beyond the end of the condition are not selected.
std::vector<int64_t> selected(const Node& node, const Tensor& condition, int64_t extent) {
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < condition.elems(); ++i) {
    if (!condition.data<bool>()[i]) continue;
    if (i >= extent) node_error(node, fmt::format("condition {} is true, but there are {} slices", i, extent));
    chosen.push_back(i);
  }
  return chosen;
}

void infer(InferContext& ctx) {
  check_types(Bool{}, ctx, 1);
  if (ctx.rank(1) != 1) ctx.error(fmt::format("condition has rank {}, expected 1", ctx.rank(1)));
  const View view = view_of(ctx.node, ctx.shape(0));
  const auto count = static_cast<int64_t>(selected(ctx.node, ctx.needed(1), view.extent).size());
  Shape shape = ctx.node.has_attr("axis") ? ctx.shape(0) : Shape{count};
  shape[view.axis] = count;
  set_same_dtype(ctx, std::move(shape));
}

void reference(ReferenceContext& ctx) {
  const View view = view_of(ctx.node, ctx.in(0).shape());
  const std::vector<int64_t> chosen = selected(ctx.node, ctx.in(1), view.extent);
  int64_t to = 0;
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t i : chosen) {
      copy_elements(ctx.in(0), (o * view.extent + i) * view.inner, ctx.out(), to, view.inner);
      to += view.inner;
    }
  }
}

}  // namespace

KILTER_OP(Compress){
    .name = "Compress",
    .since = 9,
    .min_inputs = 2,
    .max_inputs = 2,
    .attrs = {{"axis", "int", ""}},
    .summary = "y = the slices of x along axis (elements of flat x without axis) where condition (input 1) is true.",
    .infer = infer,
    .reference = reference,
    .shape_operands = {1},
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[3,2] bool[3]=0,1,1 | axis=0", "f32[3,7] bool[2]=0,1 | axis=-1", "i64[3,2] bool[5]=0,1,0,0,1",
              "f16[17] bool[1]=0 | | 9"},
};

}  // namespace kilter
