#include "ops/support/flex_attention.h"

namespace kilter {
namespace {

/// Expands to scaled dot product attention without masks: Attention on the same operands, in the requested precision.
/// For a node with graphs, the importer calls add_modified_attention() instead.
std::vector<ValueId> expand(ExpandContext& ctx) {
  const Node& node = ctx.node;
  check_flex_operands(node, {ctx.type(0), ctx.type(1), ctx.type(2)});
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
        "Softmax(scale q k') v per head for q, k, v [batch, heads, positions, size], grouped heads as in Attention; "
        "the "
        "graphs score_mod and prob_mod change what enters and leaves the softmax.",
    .expand = expand,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[2,3,5,8] f32[2,3,7,8] f32[2,3,7,9]", "f32[1,4,3,8] f32[1,2,5,8] f32[1,2,5,8] | scale=0.25"},
};

}  // namespace kilter
