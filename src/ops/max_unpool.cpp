#include "ops/support/elementwise.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

/// Returns the extents of the image that pooling with these attributes would have reduced to x. Indices refer to that
/// image.
Shape unpooled(const Node& node, const Shape& x) {
  const std::vector<int64_t> kernel = node.ints_attr("kernel_shape");
  const size_t rank = x.size() < 3 ? 0 : x.size() - 2;
  if (rank == 0) node_error(node, fmt::format("input has shape {}, expected [N, C, d0, ...]", text(x)));
  std::vector<int64_t> strides = node.ints_attr("strides", std::vector<int64_t>(rank, 1));
  std::vector<int64_t> pads = node.ints_attr("pads", std::vector<int64_t>(2 * rank, 0));
  check_count(node, "entries of kernel_shape", rank, kernel.size());
  check_count(node, "entries of strides", rank, strides.size());
  check_count(node, "entries of pads", 2 * rank, pads.size());
  Shape shape = {x[0], x[1]};
  for (size_t a = 0; a < rank; ++a) {
    const int64_t stepped = checked_mul(node, x[a + 2] - 1, strides[a]);
    const int64_t padding = checked_add(node, pads[a], pads[rank + a]);
    shape.push_back(checked_add(node, checked_add(node, stepped, kernel[a]), checked_mul(node, padding, -1)));
  }
  check_shape(node, shape);
  return shape;
}

void infer(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  check_types(Types<int64_t>{}, ctx, 1);
  if (ctx.shape(1) != ctx.shape(0)) {
    ctx.error(fmt::format("indices have shape {}, expected {}", text(ctx.shape(1)), text(ctx.shape(0))));
  }
  Shape shape = unpooled(ctx.node, ctx.shape(0));
  if (ctx.has(2)) {
    const Shape given = operand_ints(ctx.node, ctx.needed(2), "output_shape");
    check_count(ctx.node, "entries of output_shape", shape.size(), given.size());
    check_shape(ctx.node, given);
    shape = given;
  }
  ctx.set(0, ctx.dtype(0), shape);
}

void reference(ReferenceContext& ctx) {
  const Tensor& x = ctx.in(0);
  const Shape shape = unpooled(ctx.node, x.shape());
  const Shape& out = ctx.out().shape();
  const int64_t total = elems(shape);
  const Shape strides = dense_strides(out);
  for (int64_t i = 0; i < x.elems(); ++i) {
    int64_t index = ctx.in(1).as_int(i);
    if (index < 0 || index >= total) {
      fail(ErrorKind::bad_input, "MaxUnpool '{}': index {} is out of range; legal values are 0 to {}", ctx.node.name,
           index, total - 1);
    }
    int64_t to = 0;
    bool inside = true;
    for (size_t d = shape.size(); d-- > 0;) {
      const int64_t at = index % shape[d];
      inside = inside && at < out[d];
      to += at * strides[d];
      index /= shape[d];
    }
    if (inside) copy_element(x, i, ctx.out(), to);
  }
}

}  // namespace

KILTER_OP(MaxUnpool){
    .name = "MaxUnpool",
    .since = 9,
    .min_inputs = 2,
    .max_inputs = 3,
    .attrs = {{"kernel_shape", "ints", "required"}, {"pads", "ints", ""}, {"strides", "ints", ""}},
    .summary =
        "x [N, C, d0, ...] put at the flat indices that MaxPool gave, zeros elsewhere; output_shape, if given, crops "
        "it or pads it with zeros at the end of each axis.",
    .infer = infer,
    .reference = reference,
    .shape_operands = {2},
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[1,1,2,2] i64[1,1,2,2]=5,7,13,15 | kernel_shape=[2,2] strides=[2,2]",
              "f32[1,1,2,2] i64[1,1,2,2]=5,7,13,15 i64[4]=1,1,5,5 | kernel_shape=[2,2] strides=[2,2]",
              "f32[1,2,3] i64[1,2,3]=0,3,5,6,9,11 | kernel_shape=[2] strides=[2]"},
};

}  // namespace kilter
