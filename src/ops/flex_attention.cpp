#include "ops/support/builder.h"

namespace kilter {
namespace {

/// Expands to scaled dot product attention without masks: Attention on the same operands, in the requested precision.
std::vector<ValueId> expand(ExpandContext& ctx) {
  const Node& node = ctx.node;
  if (node.has_attr("score_mod") || node.has_attr("prob_mod")) {
    fail(ErrorKind::unsupported,
         "FlexAttention '{}': attributes score_mod and prob_mod (subgraphs) are not supported; write the attention as "
         "MatMul, Softmax and the nodes of the subgraph",
         node.name);
  }
  for (size_t i = 0; i < 3; ++i) {
    if (ctx.type(i).shape.size() != 4) {
      node_error(node, fmt::format("input {} has shape {}, expected [batch, heads, positions, size]", i,
                                   text(ctx.type(i).shape)));
    }
  }
  Attrs attrs;
  if (node.has_attr("scale")) attrs["scale"] = node.float_attr("scale", 1);
  if (node.has_attr("softmax_precision")) attrs["softmax_precision"] = node.int_attr("softmax_precision", 1);
  return {ctx.add("Attention", {ctx.in(0), ctx.in(1), ctx.in(2)}, std::move(attrs))};
}

}  // namespace

KILTER_OP(FlexAttention){
    .name = "FlexAttention",
    .domain = "ai.onnx.preview",
    .min_inputs = 3,
    .max_inputs = 3,
    .attrs = {{"prob_mod", "graph", ""},
              {"scale", "float", ""},
              {"score_mod", "graph", ""},
              {"softmax_precision", "int", ""}},
    .summary =
        "Softmax(scale q k') v per head for q, k, v [batch, heads, positions, size], grouped heads as in Attention.",
    .expand = expand,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[2,3,5,8] f32[2,3,7,8] f32[2,3,7,9]", "f32[1,4,3,8] f32[1,2,5,8] f32[1,2,5,8] | scale=0.25"},
};

}  // namespace kilter
