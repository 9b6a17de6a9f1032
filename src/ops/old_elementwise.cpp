#include "ops/support/old_form.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

/// Appends dimensions of 1 to the shape of b, so that its first dimension is aligned with dimension `axis` of a.
/// Without `axis`, the last dimensions are aligned, as in newer opsets.
std::vector<ValueId> expand_binary(ExpandContext& ctx) {
  const Node& node = ctx.node;
  ValueId b = ctx.in(1);
  if (node.int_attr("broadcast", 0) != 0 && node.has_attr("axis")) {
    const auto rank = static_cast<int64_t>(ctx.type(0).shape.size());
    Shape shape = ctx.type(1).shape;
    const int64_t end = normal_axis(node, node.int_attr("axis", 0), rank) + static_cast<int64_t>(shape.size());
    if (end > rank) {
      node_error(node, fmt::format("input 1 of shape {} does not fit into {} from axis {} on", text(shape),
                                   text(ctx.type(0).shape), node.int_attr("axis", 0)));
    }
    shape.resize(shape.size() + static_cast<size_t>(rank - end), 1);
    b = ctx.add("Reshape", {b, ctx.builder.list(shape)});
  }
  constexpr int32_t kNumpyBroadcast = 7;
  return in_form_of(ctx, kNumpyBroadcast, {ctx.in(0), b}, {});
}

OpDef old_binary(std::string_view name, CaseText text) {
  return {.name = name,
          .until = kLastOldOpset,
          .min_inputs = 2,
          .max_inputs = 2,
          .attrs = {{"axis", "int", ""}, {"broadcast", "int", "0"}, {"consumed_inputs", "ints", ""}},
          .summary = "The form of opset 7, with the first dimension of b at dimension `axis` of a.",
          .expand = expand_binary,
          .cases = {text}};
}

/// Leaves out the attribute consumed_inputs, which has no effect.
std::vector<ValueId> expand_unconsumed(ExpandContext& ctx) {
  constexpr int32_t kWithoutConsumed = 6;
  return in_form_of(ctx, kWithoutConsumed, ctx.node.inputs, attrs_without(ctx.node, "consumed_inputs"));
}

/// Like expand_unconsumed, with the defaults that Selu had.
std::vector<ValueId> expand_selu(ExpandContext& ctx) {
  constexpr int32_t kWithoutConsumed = 6;
  Attrs attrs = attrs_without(ctx.node, "consumed_inputs");
  attrs["alpha"] = ctx.node.float_attr("alpha", 1.6732F);
  attrs["gamma"] = ctx.node.float_attr("gamma", 1.0507F);
  return in_form_of(ctx, kWithoutConsumed, ctx.node.inputs, std::move(attrs));
}

OpDef old_form(std::string_view name, CaseText text, std::vector<AttrSpec> attrs = {}, int32_t inputs = 1) {
  attrs.push_back({"consumed_inputs", "ints", ""});
  return {.name = name,
          .until = 5,
          .min_inputs = inputs < 0 ? 1 : inputs,
          .max_inputs = inputs,
          .attrs = std::move(attrs),
          .summary = "The form of opset 6; consumed_inputs has no effect.",
          .expand = expand_unconsumed,
          .cases = {text}};
}

OpDef old_selu() {
  OpDef op = old_form("Selu", "f32[7] | | 1", {{"alpha", "float", "1.6732"}, {"gamma", "float", "1.0507"}});
  op.expand = expand_selu;
  return op;
}

constexpr int32_t kAnyNumber = -1;  ///< of inputs

}  // namespace

KILTER_OP(OldAdd) = old_binary("Add", "f32[2,3,4,5] f32[3,4] | broadcast=1 axis=1 | 6");
KILTER_OP(OldSub) = old_binary("Sub", "f32[2,3,4] f32[4] | broadcast=1 | 6");
KILTER_OP(OldMul) = old_binary("Mul", "f32[2,3] f32[1] | broadcast=1 | 1");
KILTER_OP(OldDiv) = old_binary("Div", "f32[2,3] f32[2]:1,2 | broadcast=1 axis=0 | 6");
KILTER_OP(OldPow) = old_binary("Pow", "f32[2,3]:2 f32[] | broadcast=1 | 1");
KILTER_OP(OldAnd) = old_binary("And", "bool[2,3] bool[2] | broadcast=1 axis=0 | 1");
KILTER_OP(OldOr) = old_binary("Or", "bool[2,3] bool[2,3] | | 1");
KILTER_OP(OldXor) = old_binary("Xor", "bool[2,3] bool[3] | broadcast=1 axis=-1 | 1");
KILTER_OP(OldEqual) = old_binary("Equal", "i32[2,3] i32[3] | broadcast=1 | 1");
KILTER_OP(OldGreater) = old_binary("Greater", "f32[2,3] f32[2] | broadcast=1 axis=0 | 1");
KILTER_OP(OldLess) = old_binary("Less", "f32[2,3] f32[3] | broadcast=1 | 1");

KILTER_OP(OldAbs) = old_form("Abs", "f32[7] | consumed_inputs=[0] | 1");
KILTER_OP(OldCeil) = old_form("Ceil", "f32[7] | | 1");
KILTER_OP(OldExp) = old_form("Exp", "f32[7] | | 1");
KILTER_OP(OldFloor) = old_form("Floor", "f32[7] | | 5");
KILTER_OP(OldLog) = old_form("Log", "f32[3]:1,2,3 | | 1");
KILTER_OP(OldNeg) = old_form("Neg", "f32[7] | | 1");
KILTER_OP(OldReciprocal) = old_form("Reciprocal", "f32[2]:1,2 | | 1");
KILTER_OP(OldRelu) = old_form("Relu", "f32[7] | consumed_inputs=[0] | 1");
KILTER_OP(OldSigmoid) = old_form("Sigmoid", "f32[7] | | 1");
KILTER_OP(OldSqrt) = old_form("Sqrt", "f32[2]:1,2 | | 1");
KILTER_OP(OldTanh) = old_form("Tanh", "f32[7] | | 1");
KILTER_OP(OldSelu) = old_selu();
KILTER_OP(OldClip) = old_form("Clip", "f32[7] | max=0.5 | 1",
                              {{"max", "float", "3.40282347e+38"}, {"min", "float", "-3.40282347e+38"}});
KILTER_OP(OldElu) = old_form("Elu", "f32[7] | alpha=0.5 | 1", {{"alpha", "float", "1.0"}});
KILTER_OP(OldHardSigmoid) = old_form("HardSigmoid", "f32[7] | beta=0.25 | 1",
                                     {{"alpha", "float", "0.2"}, {"beta", "float", "0.5"}});
KILTER_OP(OldLeakyRelu) = old_form("LeakyRelu", "f32[7] | | 1", {{"alpha", "float", "0.01"}});
KILTER_OP(OldInstanceNormalization) = old_form("InstanceNormalization", "f32[2,3,5] f32[3] f32[3] | | 1",
                                               {{"epsilon", "float", "1e-5"}}, 3);
KILTER_OP(OldMax) = old_form("Max", "f32[7] f32[7] | | 1", {}, kAnyNumber);
KILTER_OP(OldMean) = old_form("Mean", "f32[7] f32[7] | | 1", {}, kAnyNumber);
KILTER_OP(OldMin) = old_form("Min", "f32[7] f32[7] | | 1", {}, kAnyNumber);
KILTER_OP(OldSum) = old_form("Sum", "f32[7] f32[7] | | 1", {}, kAnyNumber);

}  // namespace kilter
