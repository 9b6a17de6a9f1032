#include "ops/support/builder.h"

namespace kilter {
namespace {

std::vector<ValueId> expand(ExpandContext& ctx) {
  const ValueId log_prob = ctx.add("LogSoftmax", {ctx.in(0)}, {{"axis", int64_t{1}}});
  std::vector<ValueId> inputs = {log_prob, ctx.in(1)};
  if (ctx.has(2)) inputs.push_back(ctx.in(2));
  return {ctx.add("NegativeLogLikelihoodLoss", inputs, ctx.node.attrs), log_prob};
}

}  // namespace

KILTER_OP(SoftmaxCrossEntropyLoss){
    .name = "SoftmaxCrossEntropyLoss",
    .since = 12,
    .family = Family::softmax,
    .min_inputs = 2,
    .max_inputs = 3,
    .max_outputs = 2,
    .attrs = {{"ignore_index", "int", ""}, {"reduction", "string", "mean"}},
    .summary = "The negative log likelihood loss of log_prob = log(softmax(scores)) over axis 1, and log_prob.",
    .expand = expand,
    .cases = {"f32[3,5] i64[3]=0,4,2", "f32[3,5,2] i64[3,2]=0,4,2,1,1,0 f32[5] | reduction=none | | 2",
              "f32[3,5] i32[3]=0,-1,2 f32[5]=1,2,3,4,5 | ignore_index=-1 | 12", "f64[2,3] i64[2]=1,1 | reduction=sum"},
};

}  // namespace kilter
