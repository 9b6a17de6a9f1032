// Every template has a search space, and a model whose estimate of each candidate selects the default.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "../search/tasks.h"
#include "counted.h"
#include "schedule/model/loop_model.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

using tune::TaskOf;

/// A small problem for a template and a larger one of the same form.
struct Sizes {
  std::string small, large;
};

const std::map<std::string_view, Sizes>& problems() {
  static const std::map<std::string_view, Sizes> kProblems{
      {"conv2d_then_depthwise",
       {"conv2d n1 c16 h9 w11 k32 r1 s1 f32 +bias +relu => conv2d n1 c32 h9 w11 k32 r3 s3 g32 stride2,2 pad1 f32 +relu",
        "conv2d n1 c32 h19 w21 k64 r1 s1 f32 +bias +relu => conv2d n1 c64 h19 w21 k64 r3 s3 g64 stride2,2 pad1 f32 "
        "+relu"}},
      {"conv2d_depthwise",
       {"conv2d n1 c32 h10 w13 k32 r3 s3 g32 pad1 f32 +bias +clip(0 6)",
        "conv2d n1 c96 h20 w26 k96 r3 s3 g96 pad1 f32 +bias +clip(0 6)"}},
      {"conv2d_amx",
       {"conv2d n1 c64 h28 w28 k64 r3 s3 pad1 f32:bf16 +bias +relu >bf16",
        "conv2d n1 c128 h56 w56 k128 r3 s3 pad1 f32:bf16 +bias +relu >bf16"}},
      {"conv2d_plain_amx",
       {"conv2d n1 c3 h33 w39 k32 r3 s3 stride2,2 pad1 f32:bf16 +bias +relu >bf16",
        "conv2d n1 c3 h66 w78 k64 r3 s3 stride2,2 pad1 f32:bf16 +bias +relu >bf16"}},
      {"conv2d_winograd",
       {"conv2d n1 c64 h28 w28 k64 r3 s3 pad1 f32 +bias +relu",
        "conv2d n1 c128 h56 w56 k128 r3 s3 pad1 f32 +bias +relu"}},
      {"conv2d_direct",
       {"conv2d n1 c16 h14 w14 k48 r3 s3 stride2,2 pad1 f32", "conv2d n1 c32 h28 w28 k96 r3 s3 stride2,2 pad1 f32"}},
      {"conv2d_pixels",
       {"conv2d n1 c3 h14 w33 k2 r3 s3 pad1 f32 +bias", "conv2d n1 c8 h28 w65 k2 r3 s3 pad1 f32 +bias"}},
      {"conv_transpose",
       {"convtranspose(f32[1,16,5,5] f32[16,32,4,4] kernel_shape=4,4 pads=1,1,1,1 strides=2,2)",
        "convtranspose(f32[1,32,9,9] f32[32,64,4,4] kernel_shape=4,4 pads=1,1,1,1 strides=2,2)"}},
      {"matmul_amx",
       {"matmul(f32:bf16[64,96] f32[96,160]) +add(f32[160])", "matmul(f32:bf16[128,192] f32[192,320]) +add(f32[320])"}},
      {"matmul_tiled",
       {"matmul(f32[1,13,40] f32[40,50]) +add(f32[50])", "matmul(f32[1,26,80] f32[80,100]) +add(f32[100])"}},
      {"matmul_nbits",
       {"matmulnbits(f32[1,5,64] u8[50,2,16] f32[50,2] K=64 N=50 bits=4 block_size=32) +add(f32[50])",
        "matmulnbits(f32[1,10,128] u8[100,4,16] f32[100,4] K=128 N=100 bits=4 block_size=32) +add(f32[100])"}},
      {"attention_query",
       {"fusedattention(f32[1,2,1,8] f32[1,2,18,8] f32[1,2,18,24] scale=0.5)",
        "fusedattention(f32[1,4,1,16] f32[1,4,70,16] f32[1,4,70,40] scale=0.5)"}},
      {"attention_amx",
       {"fusedattention(f32:bf16[1,2,32,32] f32:bf16[1,2,48,32] f32:bf16[1,2,48,32] scale=0.5) >bf16",
        "fusedattention(f32:bf16[1,4,64,64] f32:bf16[1,4,96,64] f32:bf16[1,4,96,64] scale=0.5) >bf16"}},
      {"attention_rows",
       {"fusedattention(f32[1,2,9,8] f32[1,2,18,8] f32[1,2,18,24] scale=0.5)",
        "fusedattention(f32[1,4,33,16] f32[1,4,70,16] f32[1,4,70,40] scale=0.5)"}},
      {"recurrent_steps",
       {"GRUSteps f32[3,5,111] f32[1,111,37] | | | 2", "GRUSteps f32[6,5,222] f32[1,222,74] | | | 2"}},
      {"pool_rows",
       {"maxpool(f32[1,32,12,12] kernel_shape=3,3 strides=2,2)",
        "maxpool(f32[1,64,40,40] kernel_shape=3,3 strides=2,2)"}},
      {"reduce_rows",
       {"reducemean(f32[2,3,5,7] i64[2]=2,3 keepdims=1)", "reducemean(f32[4,6,10,70] i64[2]=2,3 keepdims=1)"}},
      {"softmax_rows", {"softmax(f32[4,33] axis=-1)", "softmax(f32[40,330] axis=-1)"}},
      {"normalize_rows",
       {"layernormalization(f32[6,40] f32[40] f32[40] axis=-1)",
        "layernormalization(f32[60,400] f32[400] f32[400] axis=-1)"}},
      {"normalize_groups",
       {"groupnormalization(f32[1,32,8,8] f32[32] f32[32] num_groups=4)",
        "groupnormalization(f32[1,64,16,16] f32[64] f32[64] num_groups=4)"}},
      {"gather_rows", {"gather(f32[40,24] i64[5]=0,0,0,0,0)", "gather(f32[40,2400] i64[5]=0,0,0,0,0)"}},
      {"scatter_rows",
       {"scatterelements(f32[40,24] i64[1,24] f32[1,24])", "scatterelements(f32[400,240] i64[1,24] f32[1,24])"}},
      {"arg_rows", {"argmax(f32[3,40,50] axis=1)", "argmax(f32[3,400,500] axis=1)"}},
      {"sample_rows", {"gridsample(f32[1,3,9,9] f32[1,1,40,2])", "gridsample(f32[1,30,9,9] f32[1,1,400,2])"}},
      {"tree_rows",
       {"TreeSums f32[40,3] u32[64,2]=0 i32[9]=3 f32[1]=0.5 i32[9]=0 | depth=3",
        "TreeSums f32[400,30] u32[640,2]=0 i32[90]=6 f32[1]=0.5 i32[90]=0 | depth=6"}},
      {"resize_table",
       {"Upsample f32[1,3,6,7] | scales=[1,1,2,2] | 7", "Upsample f32[1,3,60,70] | scales=[1,1,2,2] | 7"}},
      {"take_channels", {"TakeChannels f32[1,32,9,11]", "TakeChannels f32[1,64,19,21]"}},
      {"move_regions", {"transpose(f32[3,5,7] perm=2,0,1)", "transpose(f32[30,50,7] perm=2,0,1)"}},
      {"map", {"relu(f32[3,50])", "relu(f32[300,500])"}},
  };
  return kProblems;
}

/// Returns the factor by which the default may exceed the cheapest candidate: a template may prefer one of several that
/// are almost equal, and the default of a pair of convolutions also accounts for threads that wait for each other.
double most_above_least(std::string_view name) {
  if (name == "conv2d_then_depthwise") return 1.6;
  return counts_loops(name) ? 1 / (1 - kCountError) : 1.05;
}

TEST(Models, EveryTemplateIsTested) {
  for (const Template* t : all_templates())
    EXPECT_TRUE(problems().contains(t->name)) << t->name << ": add a problem of it to this test";
}

TEST(Models, LoopCountingModelsAreKnown) {
  for (const auto& [name, sizes] : problems()) {
    const Template& from = *find_template(name);
    const TaskOf t(sizes.small, name.ends_with("_amx") ? tune::kTileTarget : "x86-64-v3");
    const Ranked best = rank(from, *t.task, t.limits, 1).at(0);
    if (best.schedule.knobs.empty()) continue;
    const Lowered lowered = *from.lower(*t.task, best.schedule, t.limits);
    const double counted = estimate_lowered(*t.task, lowered, t.limits).cycles;
    EXPECT_EQ(counts_loops(name), best.estimate.cycles == counted) << name;
  }
}

TEST(Models, TheDefaultIsTheCheapestCandidate) {
  int64_t winograd = 0;  ///< number of problems for which Winograd is the default
  for (const auto& [name, sizes] : problems()) {
    for (const std::string& target : tune::targets_of(name)) {
      for (const std::string& problem : {sizes.small, sizes.large}) {
        SCOPED_TRACE(fmt::format("{} on {}: {}", name, target, problem));
        const TaskOf t(problem, target);
        const Template& from = *find_template(name);
        const std::vector<Ranked> ranked = rank(from, *t.task, t.limits, SIZE_MAX);
        ASSERT_FALSE(ranked.empty());
        const auto picked = from.pick(*t.task, t.limits);
        if (name == "conv2d_winograd") {
          if (!picked) continue;  // direct convolution is the default
          ++winograd;
        }
        const Schedule& schedule = *picked;
        const auto of = std::ranges::find(ranked, schedule, &Ranked::schedule);
        ASSERT_NE(of, ranked.end()) << schedule.text();
        EXPECT_LE(of->estimate.cycles, ranked.front().estimate.cycles * most_above_least(name))
            << schedule.text() << " behind " << ranked.front().schedule.text();
        for (const Ranked& r : ranked) {
          EXPECT_GT(r.estimate.cycles, 0) << r.schedule.text();
          EXPECT_GE(r.estimate.tail, 0) << r.schedule.text();
          EXPECT_LE(r.estimate.tail, 1) << r.schedule.text();
        }
      }
    }
  }
  EXPECT_GT(winograd, 0);
}

TEST(Models, MoreWorkTakesLonger) {
  for (const auto& [name, sizes] : problems()) {
    for (const std::string& target : tune::targets_of(name)) {
      const Template& from = *find_template(name);
      const auto cycles = [&](const std::string& problem) {
        const TaskOf t(problem, target);
        return rank(from, *t.task, t.limits, 1).at(0).estimate.cycles;
      };
      EXPECT_GT(cycles(sizes.large), 1.5 * cycles(sizes.small)) << name << " on " << target;
    }
  }
}

}  // namespace
}  // namespace kilter
