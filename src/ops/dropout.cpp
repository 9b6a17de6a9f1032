#include "ops/support/builder.h"
#include "ops/support/onnx_dtype.h"

namespace kilter {
namespace {

constexpr double kDefaultRatio = 0.5;

/// Returns the constant value of input i; nullptr if it is left out or computed at run time. Throws bad_model unless it
/// is one number.
const Tensor* constant_scalar(ExpandContext& ctx, size_t i) {
  if (!ctx.has(i)) return nullptr;
  const Shape& shape = ctx.type(i).shape;
  if (elems(shape) != 1) {
    node_error(ctx.node, fmt::format("input {} has shape {}, expected a scalar", i, text(shape)));
  }
  const Value& value = ctx.builder.graph().value(ctx.in(i));
  return value.constant ? &*value.constant : nullptr;
}

/// Whether the node certainly changes nothing: it is not in training mode, or it drops nothing.
bool is_identity(ExpandContext& ctx) {
  constexpr int32_t kNoMode = 7;  ///< first opset in which the node has no mode; from opset 12 on, input 2 is the mode
  if (ctx.node.opset < kNoMode && ctx.node.int_attr("is_test", 0) == 0) {
    fail(ErrorKind::unsupported,
         "Dropout '{}': is_test is 0, which means training mode before opset 7; convert the model to opset 12 or newer",
         ctx.node.name);
  }
  const Tensor* training = constant_scalar(ctx, 2);
  const Tensor* ratio = constant_scalar(ctx, 1);
  if (!ctx.has(2) || (training != nullptr && training->as_int(0) == 0)) return true;
  if (ratio == nullptr) return false;
  const double dropped = ratio->as_double(0);
  if (!(dropped >= 0 && dropped < 1)) {
    node_error(ctx.node, fmt::format("ratio (input 1) is {}; expected at least 0 and less than 1", dropped));
  }
  return dropped == 0;
}

/// Returns x and a mask of ones: of the type bool or, before opset 10, of the type of x.
std::vector<ValueId> identity(ExpandContext& ctx) {
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

ValueId scalar_of(ExpandContext& ctx, size_t i, DType type) {
  const ValueId scalar = ctx.add("Reshape", {ctx.in(i), ctx.builder.list(std::vector<int64_t>{})});
  return ctx.builder.type(scalar).dtype == type ? scalar : ctx.add("Cast", {scalar}, {{"to", code_of_dtype(type)}});
}

/// Keeps each element with probability 1 - ratio and divides what it keeps by 1 - ratio. Training mode and ratio may be
/// computed at run time.
std::vector<ValueId> expand(ExpandContext& ctx) {
  if (is_identity(ctx)) return identity(ctx);
  const DType type = ctx.type(0).dtype;
  if (!is_float(type)) node_error(ctx.node, fmt::format("input 0 has element type {}, expected a float", name(type)));
  const ValueId one = ctx.scalar(DType::f32, 1);
  const ValueId ratio = ctx.has(1) ? scalar_of(ctx, 1, DType::f32) : ctx.scalar(DType::f32, kDefaultRatio);
  Attrs attrs = {{"dtype", code_of_dtype(DType::f32)}};
  if (ctx.node.has_attr("seed")) attrs["seed"] = static_cast<float>(ctx.node.int_attr("seed", 0));
  ValueId kept = ctx.add("GreaterOrEqual", {ctx.add("RandomUniformLike", {ctx.in(0)}, std::move(attrs)), ratio});
  ValueId scale = ctx.add("Div", {one, ctx.add("Sub", {one, ratio})});
  if (constant_scalar(ctx, 2) == nullptr) {
    const ValueId training = scalar_of(ctx, 2, DType::boolean);
    kept = ctx.add("Or", {kept, ctx.add("Not", {training})});
    scale = ctx.add("Where", {training, scale, one});
  }
  if (type != DType::f32) scale = ctx.add("Cast", {scale}, {{"to", code_of_dtype(type)}});
  const ValueId y = ctx.add("Where", {kept, ctx.add("Mul", {ctx.in(0), scale}), ctx.scalar(type, 0)});
  return {y, kept};
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
    .summary =
        "y = x and mask = all true (before opset 10: all 1) in inference; in training mode y = x / (1 - ratio) where "
        "the mask is true, with probability 1 - ratio, else 0.",
    .expand = expand,
    .cases = {"f32[2,3,5]", "f32[7] f32[]=0.3 bool[]=false | | | 2", "f32[17] f32[]=0 bool[]=true",
              "f16[3,4] | ratio=0.2 | 7 | 2", "f64[5] | ratio=0.7 | 10 | 2",
              "f32[2,9] f32[]:0.3 bool[]:true | seed=5 | | 2", "f16[11] f32[]=0.5 bool[]=true | seed=6",
              "f64[8] ? bool[1]:false | | | 2"},
};

}  // namespace kilter
