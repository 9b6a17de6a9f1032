#include "ops/support/sequences.h"

namespace kilter {
namespace {

std::vector<AnyValue> make(RunContext& ctx) { return {ctx.inputs.empty() ? AnyValue() : std::move(ctx.inputs[0])}; }

std::vector<AnyValue> get(RunContext& ctx) {
  if (!ctx.has(0)) node_error(ctx.node, "the optional value is absent, expected one that is present");
  return {std::move(ctx.inputs[0])};
}

std::vector<AnyValue> has(RunContext& ctx) { return {Tensor::scalar(ctx.has(0))}; }

}  // namespace

KILTER_OP(Optional){
    .name = "Optional",
    .since = 15,
    .min_inputs = 0,
    .max_inputs = 1,
    .summary = "y = x as an optional value; absent if x is left out.",
    .run = make,
};

KILTER_OP(OptionalGetElement){
    .name = "OptionalGetElement",
    .since = 15,
    .summary = "y = the tensor or sequence that an optional value contains.",
    .run = get,
};

KILTER_OP(OptionalHasElement){
    .name = "OptionalHasElement",
    .since = 15,
    .min_inputs = 0,
    .max_inputs = 1,
    .summary = "y bool = whether an optional value is present.",
    .run = has,
};

}  // namespace kilter
