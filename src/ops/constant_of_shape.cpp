#include "ops/support/iterate.h"
#include "ops/support/operands.h"
#include "ops/support/regions.h"

namespace kilter {
namespace {

Tensor value_of(const Node& node) {
  const Tensor* value = node.tensor_attr("value");
  if (value == nullptr) return Tensor::scalar<float>(0);
  if (value->elems() != 1) {
    node_error(node, fmt::format("attribute value has {} elements, expected 1", value->elems()));
  }
  return *value;
}

void infer(InferContext& ctx) {
  Shape shape = operand_ints(ctx.node, ctx.needed(0), "input 0");
  check_shape(ctx.node, shape);
  ctx.set(0, value_of(ctx.node).dtype(), std::move(shape));
}

void reference(ReferenceContext& ctx) {
  const Tensor value = value_of(ctx.node);
  const Shape repeat(ctx.out().shape().size(), 0);
  copy_strided(value, 0, repeat, ctx.out(), 0, dense_strides(ctx.out().shape()), ctx.out().shape());
}

std::optional<std::vector<CopyRegion>> regions(const OpView& view, int32_t) {
  const std::optional<double> fill = exact_fill(value_of(view.node));
  if (!fill) return std::nullopt;
  const Shape& shape = view.outputs[0].shape;
  CopyRegion region = whole_region(kNone, shape, Shape(shape.size(), 0));
  region.fill = *fill;
  return tidy({region});
}

}  // namespace

KILTER_OP(ConstantOfShape){
    .name = "ConstantOfShape",
    .since = 9,
    .family = Family::movement,
    .attrs = {{"value", "tensor", ""}},
    .summary =
        "y has the shape that input 0 gives, and every element is the attribute value (one element; default f32 0).",
    .infer = infer,
    .reference = reference,
    .regions = regions,
    .shape_operands = {0},
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"i64[3]=2,3,5", "i64[0]=", "i64[1]=0", "i64[2]=7,17 | value=i64[1]=3 | 9",
              "i64[1]=33 | value=bool[1]=true"},
};

}  // namespace kilter
