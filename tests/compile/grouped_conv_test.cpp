// Grouped convolutions whose groups are smaller or larger than whole blocks of channels: register tiles compute them on
// every instruction set and give the results of the reference kernel.
#include <gtest/gtest.h>

#include <algorithm>

#include "../base/error_of.h"
#include "compiled_case.h"
#include "guarded_run.h"
#include "ops/support/evaluate.h"

namespace kilter {
namespace {

/// Compiles with the given template, or with the default one if `by` is empty.
CompiledCase compile_grouped(std::string_view op_name, const std::string& text, const Target& target,
                             std::string_view by = "") {
  const OpDef& op = *find_op("", op_name, 11);
  if (by.empty()) return compile_case(op, with_weights(parse_case(op, text)), text, target);
  OpCase c = make_case(op, with_weights(parse_case(op, text)), text);
  CompileOptions options;
  options.target = target;
  options.choices["case"].schedule = parse_schedule(by);
  Compiled compiled = compile_graph(c.graph, options);
  return {std::move(c), std::move(compiled)};
}

/// The step of the convolution; all others only change layouts.
const Step& conv_step(const Plan& plan) {
  const auto it = std::ranges::find_if(plan.steps, [](const Step& step) { return step.ops.starts_with("Conv"); });
  require(it != plan.steps.end(), "no step runs the convolution{}", steps_text(plan));
  return *it;
}

void expect_right(const CompiledCase& of, const std::string& text, const Target& target, std::string_view by) {
  const auto& [c, compiled] = of;
  const std::string where = fmt::format("{} on {}{}", text, target.name, steps_text(compiled.plan));
  const Step& step = conv_step(compiled.plan);
  EXPECT_EQ(step.schedule.substr(0, by.size()), by) << where;
  EXPECT_GE(step.flops, step.effective_flops) << where;
  const std::vector<Tensor> want = evaluate(c.graph, c.inputs);
  const auto program = std::make_shared<const Program>(compiled.plan);
  EXPECT_EQ(run_guarded(program, c.inputs, want, c.tolerance, 8), "") << where;
  EXPECT_EQ(check_padding(compiled, program, c.inputs), "") << where;
}

/// Checks a convolution with this template forced, on every instruction set.
void expect_right_by(std::string_view by, std::string_view op, const std::string& text) {
  for (const Target& target : targets_here()) expect_right(compile_grouped(op, text, target, by), text, target, by);
}

TEST(GroupedConvolution, MatchesReference) {
  for (const std::string text : {
           "f32[1,128,6,9] f32[128,4,3,3] f32[128] | group=32 pads=[1,1,1,1]",                // ResNeXt 32x4d
           "f32[2,256,5,7] f32[256,8,3,3] f32[256] | group=32 pads=[1,1,1,1] strides=[2,2]",  // half the image
           "f32[1,512,4,5] f32[512,16,3,3] f32[512] | group=32 pads=[1,1,1,1]",
           "f32[1,1024,3,3] f32[1024,32,3,3] f32[1024] | group=32 pads=[1,1,1,1]",
           "f32[1,72,9,8] f32[72,24,3,3] f32[72] | group=3 pads=[1,1,1,1]",          // RegNet
           "f32[2,168,7,7] f32[168,24,3,3] | group=7 pads=[1,1,1,1] strides=[2,2]",  // 7 groups of 1.5 vectors
           "f32[1,240,7,9] f32[240,80,1,1] f32[240] | group=3",                      // ShuffleNet
           "f32[2,240,5,6] f32[60,80,1,1] f32[60] | group=3",                        // 20 outputs per group
           "f32[1,24,9,11] f32[240,8,1,1] f32[240] | group=3",  // 8 inputs and 80 outputs per group
           "f32[2,33,8,9] f32[66,1,3,3] f32[66] | group=33 pads=[1,1,1,1] strides=[2,1]",  // multiplier 2
           "f32[1,32,8,8] f32[64,1,5,5] f32[64] | group=32 pads=[2,2,2,2]",
           "f32[1,6,12,10] f32[18,1,3,2] f32[18] | group=6 dilations=[2,3] pads=[2,1,2,2]",  // multiplier 3
           "f32[2,40,6,6] f32[8,5,3,3] f32[8] | group=8 pads=[1,1,1,1]",                     // one output per group
           "f32[1,110,4,30] f32[55,10,1,3] | group=11 pads=[0,1,0,1]",                       // no whole blocks anywhere
           "f32[1,4,9,9] f32[6,2,3,3] f32[6] | group=2",                                     // less than a block
       })
    expect_right_by("conv2d_direct", "Conv", text);
}

TEST(GroupedConvolution, GroupsWithinAVectorNeedNoZeros) {
  for (const auto& [each, text] : std::vector<std::pair<int64_t, std::string>>{
           {4, "f32[1,128,6,9] f32[128,4,3,3] f32[128] | group=32 pads=[1,1,1,1]"},
           {8, "f32[2,256,5,7] f32[256,8,3,3] f32[256] | group=32 pads=[1,1,1,1] strides=[2,2]"},
           {2, "f32[1,22,6,31] f32[22,2,3,5] | group=11 pads=[1,2,1,2] dilations=[1,2]"},
           {4, "f32[1,36,7,7] f32[36,4,1,1] f32[36] | group=9"},
           {2, "f32[1,4,9,9] f32[4,2,3,3] f32[4] | group=2"},
       }) {
    for (const Target& target : targets_here()) {
      const bool within = each < target.limits.lanes_f32();
      const CompiledCase of = compile_grouped("Conv", text, target);
      expect_right(of, text, target, within ? "conv2d_depthwise" : "conv2d_direct");
      const Step& step = conv_step(of.compiled.plan);
      if (!within) continue;
      EXPECT_EQ(step.flops, step.effective_flops) << text << " on " << target.name;
    }
  }
}

TEST(GroupedConvolution, TransposedMatchesReference) {
  for (const std::string text : {
           "f32[1,32,5,6] f32[32,4,3,3] f32[32] | group=8 strides=[2,2] pads=[1,1,1,1]",
           "f32[2,72,4,5] f32[72,24,2,2] f32[72] | group=3 strides=[2,2]",
           "f32[1,64,3,4] f32[64,16,3,3] | group=4 strides=[2,1] pads=[1,1,1,1]",
           "f32[1,33,5,5] f32[33,2,3,3] f32[66] | group=33 strides=[2,2]",  // multiplier 2
       })
    expect_right_by("conv_transpose", "ConvTranspose", text);
}

int64_t percent_executed(const std::string& text, const char* target) {
  const Compiled compiled = compile_grouped("Conv", text, parse_target(target), "conv2d_direct").compiled;
  const Step& step = conv_step(compiled.plan);
  return step.flops * 100 / step.effective_flops;
}

TEST(GroupedConvolution, ProductsWithZeroWeightsCountAsExecuted) {
  const std::string four = "f32[1,128,28,28] f32[128,4,3,3] | group=32 pads=[1,1,1,1]";
  EXPECT_EQ(percent_executed(four, "x86-64-v4"), 400);
  EXPECT_EQ(percent_executed(four, "x86-64-v3"), 200);
  EXPECT_EQ(percent_executed(four, "x86-64-v2"), 100);
  // Groups of 24 channels are one and a half vectors each, so three vectors hold two groups: the first vector reads
  // the first group, the second reads both, and the third reads the second group.
  EXPECT_EQ(percent_executed("f32[1,48,28,28] f32[48,24,3,3] | group=2 pads=[1,1,1,1]", "x86-64-v4"), 133);
  // A vector of 16 outputs reads 8 inputs.
  EXPECT_EQ(percent_executed("f32[1,64,28,28] f32[128,1,3,3] | group=64 pads=[1,1,1,1]", "x86-64-v4"), 800);
  EXPECT_EQ(percent_executed("f32[1,64,28,28] f32[64,16,3,3] | group=4 pads=[1,1,1,1]", "x86-64-v4"), 100);
}

TEST(GroupedConvolution, DirectConvolutionRefusesDepthwise) {
  const OpDef& op = *find_op("", "Conv", 11);
  const std::string text = "f32[1,64,14,14] f32[64,1,3,3] | group=64 pads=[1,1,1,1]";
  const OpCase c = make_case(op, with_weights(parse_case(op, text)), text);
  CompileOptions options;
  options.target = parse_target("x86-64-v3");
  options.choices["case"].schedule = parse_schedule("conv2d_direct vectors=1 rows=1 tile=7 prefetch=0");
  EXPECT_EQ(error_of([&] { compile_graph(c.graph, options); }),
            "--schedule case: 'conv2d_direct vectors=1 rows=1 tile=7 prefetch=0' does not apply: channels of a group: "
            "limit more than one in or out, got 1 in, 1 out");
}

}  // namespace
}  // namespace kilter
