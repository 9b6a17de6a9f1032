#include "ops/support/optimizer.h"

#include "ops/support/elementwise.h"
#include "ops/support/onnx_dtype.h"

namespace kilter {
namespace {

using RealNumbers = Types<float, double>;

ValueId scalar_of(ExpandContext& ctx, size_t input) {
  const ValueId scalar = ctx.add("Reshape", {ctx.in(input), ctx.builder.list(std::vector<int64_t>{})});
  if (ctx.type(input).dtype == DType::f64) return scalar;
  return ctx.add("Cast", {scalar}, {{"to", code_of_dtype(DType::f64)}});
}

}  // namespace

void infer_optimizer(InferContext& ctx, size_t states) {
  check_types(RealNumbers{}, ctx, 0);
  check_types(Types<int64_t>{}, ctx, 1);
  for (size_t i = 0; i < kFirstTensor; ++i) {
    if (elems(ctx.shape(i)) != 1)
      ctx.error(fmt::format("input {} has shape {}, expected a scalar", i, text(ctx.shape(i))));
  }
  const size_t groups = 2 + states;
  const size_t count = tensor_count(ctx.input_count(), states);
  if (ctx.input_count() != kFirstTensor + count * groups) {
    ctx.error(fmt::format("has {} inputs, expected a learning rate, a number of steps, and {} inputs for each tensor",
                          ctx.input_count(), groups));
  }
  const size_t outputs = count * (1 + states);
  if (ctx.outputs.size() != outputs) {
    ctx.error(fmt::format("has {} outputs, expected {}: {} for each of {} tensors", ctx.outputs.size(), outputs,
                          1 + states, count));
  }
  for (size_t t = 0; t < count; ++t) {
    const size_t x = kFirstTensor + t;
    check_types(RealNumbers{}, ctx, x);
    for (size_t g = 1; g < groups; ++g) {
      const size_t i = x + g * count;
      if (ctx.shape(i) == ctx.shape(x) && ctx.dtype(i) == ctx.dtype(x)) continue;
      ctx.error(
          fmt::format("input {} is {}, expected {} to match input {}", i, text(ctx.type(i)), text(ctx.type(x)), x));
    }
    for (size_t k = 0; k < 1 + states; ++k) ctx.set(k * count + t, ctx.dtype(x), ctx.shape(x));
  }
}

OptimizerStep::OptimizerStep(ExpandContext& ctx, size_t states, size_t tensor)
    : ctx_(ctx),
      count_(tensor_count(ctx.node.inputs.size(), states)),
      tensor_(tensor),
      type_(ctx.type(kFirstTensor + tensor).dtype) {}

ValueId OptimizerStep::typed(ValueId scalar) {
  if (ctx_.builder.type(scalar).dtype == type_) return scalar;
  return ctx_.add("Cast", {scalar}, {{"to", code_of_dtype(type_)}});
}

ValueId learning_rate(ExpandContext& ctx) { return scalar_of(ctx, 0); }
ValueId steps_made(ExpandContext& ctx) { return scalar_of(ctx, 1); }

ValueId after_first_step(ExpandContext& ctx, ValueId later, ValueId first) {
  const ValueId positive = ctx.add("Greater", {steps_made(ctx), ctx.scalar(DType::f64, 0)});
  return ctx.add("Where", {positive, later, first});
}

}  // namespace kilter
