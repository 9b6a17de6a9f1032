#include "ops/support/builder.h"

namespace kilter {
namespace {

/// Returns the value of an input that decides what the node does. Throws ShapeNeedsValue if it is not known at compile
/// time.
const Tensor& deciding(ExpandContext& ctx, size_t i) {
  const Value& value = ctx.builder.graph().value(ctx.in(i));
  if (!value.constant) throw ShapeNeedsValue{ctx.in(i), fmt::format("Dropout '{}'", ctx.node.name)};
  if (value.constant->elems() != 1) {
    node_error(ctx.node, fmt::format("input {} has shape {}, expected a scalar", i, text(value.constant->shape())));
  }
  return *value.constant;
}

std::vector<ValueId> expand(ExpandContext& ctx) {
  constexpr double kDefaultRatio = 0.5;
  if (ctx.has(2) && deciding(ctx, 2).as_int(0) != 0) {
    const double ratio = ctx.has(1) ? deciding(ctx, 1).as_double(0) : kDefaultRatio;
    if (ratio != 0) {
      fail(ErrorKind::unsupported,
           "Dropout '{}': training_mode is true with ratio {}; Kilter runs only inference: export with "
           "training_mode false or left out",
           ctx.node.name, ratio);
    }
  }
  const TensorType& type = ctx.type(0);
  Tensor one = ctx.node.opset >= 10 ? Tensor::of<bool>({1}, {true}) : Tensor(type.dtype, {1});
  if (ctx.node.opset < 10) {
    visit_dtype(type.dtype, [&]<class T>(T) {
      if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
        *one.data<T>() = T(1.0F);
      } else {
        *one.data<T>() = static_cast<T>(1);
      }
    });
  }
  return {ctx.in(0), ctx.add("ConstantOfShape", {ctx.builder.list(type.shape)}, {{"value", one}})};
}

}  // namespace

KILTER_OP(Dropout){
    .name = "Dropout",
    .since = 1,
    .family = Family::reshape,
    .min_inputs = 1,
    .max_inputs = 3,
    .max_outputs = 2,
    .attrs = {{"ratio", "float", "0.5"}, {"seed", "int", ""}, {"is_test", "int", "0"}, {"consumed_inputs", "ints", ""}},
    .summary = "y = x and mask = all true (before opset 10: all 1): dropout does nothing in inference.",
    .expand = expand,
    .shape_operands = {1, 2},
    .cases = {"f32[2,3,5]", "f32[7] f32[]=0.3 bool[]=false | | | 2", "f32[17] f32[]=0 bool[]=true",
              "f16[3,4] | ratio=0.2 | 7 | 2", "f64[5] | ratio=0.7 | 10 | 2"},
};

}  // namespace kilter
