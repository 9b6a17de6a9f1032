#include "tune/tuner/plans/choices_file.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "network.h"

namespace kilter::tune {
namespace {

std::string refusal(std::string_view text) {
  try {
    parse_choices(text, "a.plan");
  } catch (const Error& e) {
    return e.message();
  }
  return "accepted";
}

TEST(ChoicesFile, RoundTrips) {
  Choices choices;
  choices["conv1"] = parse_schedule("conv2d_direct vectors=2 rows=1 tile=8 prefetch=0");
  choices["layer = odd"] = parse_schedule("map item=4096");
  choices["stage#2/conv # 1"] = parse_schedule("map item=64");
  choices["fc"] = parse_schedule("matmul_tiled vectors=3 rows=1 prefetch=8192");
  const std::string written = text(choices, "zoo:resnet18\non 1 thread");
  EXPECT_EQ(written,
            "# zoo:resnet18\n# on 1 thread\nconv1 = conv2d_direct vectors=2 rows=1 tile=8 prefetch=0\n"
            "fc = matmul_tiled vectors=3 rows=1 prefetch=8192\nlayer = odd = map item=4096\n"
            "stage#2/conv # 1 = map item=64\n");
  EXPECT_EQ(parse_choices(written, "a.plan"), choices);
}

TEST(ChoicesFile, APrecisionIsPartOfALayerPlan) {
  LayerPlan plan;
  plan.precision = Precision::bf16;
  plan.keep_float = {"--odd", "/head/Conv", "Softmax"};
  plan.choices["--conv"] = parse_schedule("map item=4096");
  const std::string written = text(plan, "a network");
  EXPECT_EQ(written,
            "# a network\n--precision bf16\n--keep-float \"--odd\"\n--keep-float /head/Conv\n--keep-float Softmax\n"
            "\"--conv\" = map item=4096\n");
  const LayerPlan read = parse_layer_plan(written, "a.plan");
  EXPECT_EQ(read.precision, plan.precision);
  EXPECT_EQ(read.keep_float, plan.keep_float);
  EXPECT_EQ(read.choices, plan.choices);
  EXPECT_FALSE(parse_layer_plan("conv1 = fuse=no", "a.plan").precision);
  const std::string legal =
      "a.plan line 1: expected --precision bf16 or --precision fp16, once, or --keep-float NODE, once for each node, "
      "got ";
  EXPECT_EQ(refusal("--precision int8"), legal + "'--precision int8'");
  EXPECT_EQ(refusal("--keep-float"), legal + "'--keep-float'");
  EXPECT_EQ(refusal("--keep conv1"), legal + "'--keep conv1'");
  EXPECT_EQ(refusal("# one\n--precision bf16\n--precision fp16").substr(0, 13), "a.plan line 3");
  EXPECT_EQ(refusal("--keep-float a\n--keep-float a").substr(0, 13), "a.plan line 2");
}

TEST(ChoicesFile, TakesCommentsAndBlankLines) {
  const Choices got = parse_choices("\n  # nothing\n a.b/c  =  map item=1024  # the first\n\n", "a.plan");
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(text(got.at("a.b/c")), "map item=1024");
}

TEST(ChoicesFile, TakesLayoutFusionAndThreadsWithAndWithoutASchedule) {
  const Choices got = parse_choices("a = threads=2 map item=1024 fuse=no\nb = layout=plain\nc = threads=1", "a.plan");
  EXPECT_EQ(text(got.at("a")), "map item=1024 threads=2 fuse=no");
  EXPECT_EQ(got.at("a").fuse, Fusion::none);
  EXPECT_TRUE(got.at("a").changes_passes());
  EXPECT_TRUE(got.at("b").plain);
  EXPECT_FALSE(got.at("b").schedule);
  EXPECT_EQ(got.at("c").threads, 1);
  EXPECT_FALSE(got.at("c").changes_passes());
  EXPECT_EQ(parse_choices(text(got, ""), "again"), got);
}

TEST(ChoicesFile, FusionWordsSetOptions) {
  const Choices got = parse_choices("a = fuse=before\nb = fuse=apart threads=1\nc = fuse=no\nd = fuse=apart", "a.plan");
  EXPECT_EQ(text(got.at("a")), "fuse=before");
  EXPECT_EQ(text(got.at("b")), "threads=1 fuse=apart");
  EXPECT_TRUE(got.at("a").changes_passes());
  EXPECT_EQ(parse_choices(text(got, ""), "again"), got);
  CompileOptions options;
  options.choices["d"].fuse = Fusion::none;  // earlier settings are kept
  add(got, options.choices);
  EXPECT_EQ(nodes_with(options.choices, Fusion::before), std::set<std::string>{"a"});
  EXPECT_EQ(nodes_with(options.choices, Fusion::apart), std::set<std::string>{"b"});
  EXPECT_EQ(nodes_with(options.choices, Fusion::none), (std::set<std::string>{"c", "d"}));
}

TEST(ChoicesFile, ErrorsNameTheLine) {
  EXPECT_EQ(refusal("# one\nconv1"),
            "a.plan line 2: expected NODE = TEMPLATE KNOB=VALUE ... [threads=N] "
            "[layout=plain] [fuse=no|before|apart], got 'conv1'");
  EXPECT_EQ(refusal("a = layout=c8"),
            "a.plan line 1: 'layout=c8': legal settings after the schedule are layout=plain, fuse=no, fuse=before, "
            "fuse=apart and threads=N");
  EXPECT_EQ(refusal("a = threads=0"), "a.plan line 1: threads=0: expected a whole number from 1 to 1024, got '0'");
  EXPECT_EQ(refusal("a = threads=1 map item=1 threads=2"), "a.plan line 1: threads is given twice; give it once");
  EXPECT_EQ(refusal("a = fuse=no fuse=before"), "a.plan line 1: fuse is given twice; give it once");
  EXPECT_EQ(refusal("a = map item=1\na = map item=2"), "a.plan line 2: expected each layer once, got 'a'");
  EXPECT_EQ(refusal("a = map item"),
            "a.plan line 1: schedule 'map item': expected knob=INTEGER, got 'item'; write it as `kilter inspect` and "
            "profiles print it");
}

TEST(ChoicesFile, RecordsTheLineOfEachLayer) {
  const Choices got = parse_choices("# one\na = threads=1\n\nb = map item=1024\n", "a.plan");
  EXPECT_EQ(got.at("a").threads_from.words, "a.plan line 2");
  EXPECT_EQ(got.at("b").schedule_from.words, "a.plan line 4");
  EXPECT_EQ(got.at("b").schedule_from.source, ScheduleSource::layer_plan);
}

TEST(ChoicesFile, ChoicesInUseReproduceThePlan) {
  CompileOptions options = native();
  options.contents.code = false;
  options.choices["fire2.squeeze"].fuse = Fusion::none, options.choices["pool3"].plain = true,
  options.choices["conv1"].threads = 1;
  const Compiled compiled = compile_graph(small_network(), options);
  const Plan& plan = compiled.plan;
  const Choices used = parse_choices(text(choices_in_use(compiled), ""), "used.plan");
  CompileOptions again = native();
  again.contents.code = false;
  add(used, again.choices);
  EXPECT_EQ(without_schedules(again.choices), options.choices);
  const Plan copy = compile_graph(small_network(), again).plan;
  ASSERT_EQ(copy.steps.size(), plan.steps.size());
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    EXPECT_EQ(copy.steps[s].schedule, plan.steps[s].schedule) << plan.steps[s].name;
    EXPECT_TRUE(plan.steps[s].schedule.empty() || used.contains(plan.steps[s].name)) << plan.steps[s].name;
  }
}

}  // namespace
}  // namespace kilter::tune
