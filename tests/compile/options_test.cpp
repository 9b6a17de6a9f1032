// Options that pin a layer, the compiler's notes about a plan, and the model's ranking of schedules.
#include <gtest/gtest.h>

#include <algorithm>

#include "../schedule/counted.h"
#include "compile/compile.h"
#include "exec/schedule_source.h"
#include "schedule/model/loop_model.h"
#include "zoo/zoo.h"

namespace kilter {
namespace {

Compiled compiled(const CompileOptions& options) {
  return compile_graph(zoo::build("squeezenet1_1", {.size = 64}), options);
}

CompileOptions avx512() {
  CompileOptions options;
  options.target = parse_target("x86-64-v4");
  return options;
}

const Step* find(const Compiled& c, const std::string& name) {
  const auto it = std::find_if(c.plan.steps.begin(), c.plan.steps.end(),
                               [&](const Step& s) { return s.name == name && s.kind != StepKind::halo; });
  return it == c.plan.steps.end() ? nullptr : &*it;
}

std::string error_of(const CompileOptions& options) {
  try {
    compiled(options);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    return e.message();
  }
  return "no error";
}

/// Why a node runs on its own; null if nothing is reported about it.
const Unfused* left_out(const Compiled& c, std::string_view node) {
  const auto it = std::ranges::find(c.unfused, node, &Unfused::node);
  return it == c.unfused.end() ? nullptr : &*it;
}

TEST(CompileOptions, NoFuseKeepsTheActivationSeparate) {
  CompileOptions options = avx512();
  const Compiled fused = compiled(options);
  ASSERT_NE(find(fused, "conv1"), nullptr);
  EXPECT_EQ(find(fused, "conv1")->ops, "Conv+Relu");
  EXPECT_EQ(left_out(fused, "conv1.relu"), nullptr);
  options.choices["conv1"].fuse = Fusion::none;
  const Compiled apart = compiled(options);
  EXPECT_EQ(find(apart, "conv1")->ops, "Conv");
  ASSERT_NE(find(apart, "conv1.relu"), nullptr);
  EXPECT_EQ(apart.unfused.size(), fused.unfused.size() + 1);
  const Unfused* relu = left_out(apart, "conv1.relu");
  ASSERT_NE(relu, nullptr);
  EXPECT_EQ(relu->why, Unfused::option);
  EXPECT_EQ(relu->group, "conv1");
  EXPECT_EQ(relu->reason, "--no-fuse conv1");
  EXPECT_EQ(find(apart, "fire2.squeeze")->ops, "Conv+Relu") << "only the named node is left alone";
}

TEST(CompileOptions, LayerThreadsLimitOneTask) {
  CompileOptions options = avx512();
  options.choices["conv1"].threads = 1;
  const Compiled c = compiled(options), free = compiled(avx512());
  ASSERT_EQ(c.plan.steps.size(), free.plan.steps.size());
  for (size_t i = 0; i < c.plan.steps.size(); ++i) {
    const Step& s = c.plan.steps[i];
    const bool named = s.name == "conv1" && s.kind == StepKind::kernel;
    EXPECT_EQ(s.max_threads, named ? 1 : free.plan.steps[i].max_threads) << s.name;
  }
}

TEST(CompileOptions, PlainLayoutPutsLayoutChangesAroundTheNode) {
  const auto changes = [](const Compiled& c) {
    return std::count_if(c.plan.steps.begin(), c.plan.steps.end(),
                         [](const Step& s) { return s.role == StepRole::relayout; });
  };
  CompileOptions options = avx512();
  const auto before = changes(compiled(options));
  options.choices["pool1"].plain = true;
  const Compiled plain = compiled(options);
  EXPECT_EQ(changes(plain), before + 2);
  EXPECT_EQ(find(plain, "pool1")->layouts.find("c16"), std::string::npos) << find(plain, "pool1")->layouts;
}

TEST(CompileOptions, UnknownNamesAreRefused) {
  CompileOptions options = avx512();
  options.choices["conv1.relu"].fuse = Fusion::none;
  EXPECT_TRUE(error_of(options).starts_with(
      "--no-fuse conv1.relu: no task has this name; legal values are conv1, conv10, fire2"))
      << error_of(options);
  options = avx512();
  options.choices["nothing"].threads = 1;
  EXPECT_TRUE(
      error_of(options).starts_with("--layer-threads nothing=1: no task has this name; legal values are conv1, "));
  options = avx512();
  options.choices["conv1"].threads = -1;
  EXPECT_EQ(error_of(options), "--layer-threads conv1=-1: expected 1 thread or more");
  options = avx512();
  options.choices["nothing"].plain = true;
  EXPECT_TRUE(error_of(options).starts_with(
      "--plain-layout nothing: no node has this name; legal values are conv1, conv1.relu, "));
}

TEST(CompileOptions, ForbiddenSchedulesAreNotDefaults) {
  CompileOptions options = avx512();
  const Compiled before = compiled(options);
  ASSERT_TRUE(find(before, "fire2.expand3x3")->schedule.starts_with("conv2d_winograd ")) << "else this tests nothing";
  const std::string direct = find(before, "conv1")->schedule;
  options.forbidden = {parse_forbidden("winograd@fire2.expand3x3"), parse_forbidden(direct + "@conv1")};
  const Compiled after = compiled(options);
  EXPECT_TRUE(find(after, "fire2.expand3x3")->schedule.starts_with("conv2d_direct "));
  EXPECT_TRUE(find(after, "conv1")->schedule.starts_with("conv2d_direct "));
  EXPECT_NE(find(after, "conv1")->schedule, direct);
  const auto& rejected = after.rejected[static_cast<size_t>(find(after, "fire2.expand3x3") - after.plan.steps.data())];
  const auto it = std::ranges::find(rejected, "conv2d_winograd", &std::pair<std::string, Rejected>::first);
  ASSERT_NE(it, rejected.end());
  EXPECT_EQ(it->second.text(), "--forbid: limit allowed schedules, got conv2d_winograd@fire2.expand3x3");
  options.forbidden = {parse_forbidden("winograd")};
  for (const Step& step : compiled(options).plan.steps) EXPECT_FALSE(step.schedule.starts_with("conv2d_winograd"));
  options.choices["fire2.expand3x3"].schedule = options.choices["fire4.expand3x3"].schedule =
      parse_schedule("conv2d_winograd");
  const Compiled forced = compiled(options);
  EXPECT_EQ(find(forced, "fire2.expand3x3")->schedule, find(before, "fire2.expand3x3")->schedule);
  EXPECT_EQ(find(forced, "fire2.expand3x3")->record, kGiven);
  EXPECT_TRUE(find(before, "fire4.expand3x3")->schedule.starts_with("conv2d_direct "));
  EXPECT_TRUE(find(forced, "fire4.expand3x3")->schedule.starts_with("conv2d_winograd ")) << "the best by its model";
}

TEST(CompileOptions, ForbiddenConvolutionPairsRunSeparately) {
  const auto pairs = [](const CompileOptions& options) {
    const Compiled c = compile_graph(zoo::build("mobilenet_v2", {.size = 64}), options);
    return std::ranges::count_if(c.plan.steps,
                                 [](const Step& s) { return s.schedule.starts_with("conv2d_then_depthwise"); });
  };
  CompileOptions options = avx512();
  options.contents.code = false;
  EXPECT_GT(pairs(options), 0);
  options.forbidden = {parse_forbidden("conv2d_then_depthwise")};
  EXPECT_EQ(pairs(options), 0);
}

TEST(CompileOptions, ForbiddingTheOnlyTemplateIsRefused) {
  CompileOptions options = avx512();
  options.forbidden = {parse_forbidden("pool_rows@pool1")};
  EXPECT_EQ(error_of(options),
            "--forbid pool_rows@pool1: no other template applies to 'pool1'; allow it, or give --schedule "
            "pool1=reference for the reference kernel");
  options.forbidden = {parse_forbidden("pool_rows@nothing")};
  EXPECT_TRUE(
      error_of(options).starts_with("--forbid pool_rows@nothing: no task has this name; legal values are conv1, "));
}

TEST(CompileOptions, ForbiddingInapplicableScheduleIsAnError) {
  CompileOptions options = avx512();
  options.contents.code = false;
  options.forbidden = {parse_forbidden("winograd@conv1")};
  EXPECT_EQ(error_of(options),
            "--forbid conv2d_winograd@conv1: 'conv2d_winograd' does not apply here anyway: strides and dilations: "
            "limit 1, got more; leave it out");
  options.forbidden = {parse_forbidden("conv2d_direct vectors=99@conv1")};
  EXPECT_TRUE(
      error_of(options).starts_with("--forbid conv2d_direct vectors=99@conv1: 'conv2d_direct vectors=99' does not "
                                    "apply here anyway: conv2d_direct knob vectors: limit one of "));
  std::vector<std::string> notices;
  options.report.notice = [&](const std::string& line) { notices.push_back(line); };
  options.forbidden = {parse_forbidden("recurrent_steps"), parse_forbidden("winograd")};
  compiled(options);
  EXPECT_EQ(notices, std::vector<std::string>{
                         "--forbid recurrent_steps: this has no effect, since it applies to no layer of this network"});
  notices.clear();
  options.forbidden = {parse_forbidden("conv2d_then_depthwise")};  // has an effect: no pairs form
  compile_graph(zoo::build("mobilenet_v2", {.size = 64}), options);
  EXPECT_EQ(notices, std::vector<std::string>());
}

TEST(CompileOptions, LayerPlanErrorsNameTheLine) {
  CompileOptions options = avx512();
  options.contents.code = false;
  options.choices["conv1"] = {parse_schedule("conv2d_winograd"), {ScheduleSource::layer_plan, "net.plan line 3"}};
  EXPECT_EQ(error_of(options),
            "net.plan line 3, 'conv1': 'conv2d_winograd' does not apply: strides and dilations: limit 1, got more; "
            "legal values are conv2d_direct, reference");
  options.choices = {{"nothing", {parse_schedule("conv2d_direct"), {ScheduleSource::layer_plan, "net.plan line 4"}}}};
  EXPECT_TRUE(
      error_of(options).starts_with("net.plan line 4, 'nothing': no task has this name; legal values are conv1, "));
}

TEST(CompileOptions, StepsRecordTheLineOfTheLayerPlan) {
  CompileOptions options = avx512();
  options.contents.code = false;
  options.choices["conv1"] = {parse_schedule("conv2d_direct"), {ScheduleSource::layer_plan, "net.plan line 3"}};
  EXPECT_EQ(find(compiled(options), "conv1")->record, "layer plan net.plan line 3");
  options.choices["conv1"].schedule_from = {};
  EXPECT_EQ(find(compiled(options), "conv1")->record, "given with --schedule");
}

TEST(Notes, ProducersAreTheStepsThatAStepReads) {
  const Compiled c = compiled(avx512());
  ASSERT_EQ(c.notes.size(), c.plan.steps.size());
  const auto producers = [&](const std::string& name) {
    std::vector<std::string> names;
    for (size_t s : c.notes[static_cast<size_t>(find(c, name) - c.plan.steps.data())].producers)
      names.push_back(c.plan.steps[s].name);
    return names;
  };
  EXPECT_EQ(producers("pool1"), std::vector<std::string>{"conv1"});
  // Looks through a concatenation, which is only storage.
  EXPECT_EQ(producers("fire3.squeeze"), (std::vector<std::string>{"fire2.expand1x1", "fire2.expand3x3"}));
}

TEST(Notes, ReferenceStepsListRejections) {
  CompileOptions options = avx512();
  options.debug.disable = {"choose_layouts"};
  const Compiled c = compiled(options);
  const size_t step = static_cast<size_t>(find(c, "conv1") - c.plan.steps.data());
  ASSERT_EQ(c.plan.steps[step].kind, StepKind::reference);
  const auto& rejected = c.rejected[step];
  const auto direct =
      std::find_if(rejected.begin(), rejected.end(), [](const auto& r) { return r.first == "conv2d_direct"; });
  ASSERT_NE(direct, rejected.end());
  EXPECT_EQ(direct->second.text(), "block of the output layout: limit 16, got 1");
  const Unfused* relu = left_out(c, "conv1.relu");
  ASSERT_NE(relu, nullptr);
  EXPECT_EQ(relu->why, Unfused::schedule);
}

TEST(Ranking, DefaultsRankNearTheTopAndBadTilesFarBehind) {
  CompileOptions options = avx512();
  EXPECT_TRUE(compiled(options).notes[0].ranked().empty()) << "only on request";
  options.contents.alternatives = true;
  const Compiled c = compiled(options);
  int ranked = 0;
  for (size_t s = 0; s < c.plan.steps.size(); ++s) {
    if (c.notes[s].ranked().empty()) continue;
    ++ranked;
    ASSERT_TRUE(c.notes[s].estimate);
    const Estimate& chosen = *c.notes[s].estimate;
    const std::string taken = parse_schedule(c.plan.steps[s].schedule).name;
    // Models that only count loops keep the usual schedule unless a different one gains more than the models' error.
    const double most = counts_loops(taken) ? 1 / (1 - kCountError) : 1.0101;
    EXPECT_LE(chosen.cycles, c.notes[s].ranked()[0].estimate.cycles * most) << c.plan.steps[s].problem;
    EXPECT_GE(chosen.tail, 0);
    EXPECT_LT(chosen.tail, 1);
    // No schedule exceeds two vector multiply-adds per cycle.
    EXPECT_GE(chosen.cycles * 2 * 16 * 2, 0.97 * static_cast<double>(c.plan.steps[s].flops) * 0.9)
        << c.plan.steps[s].problem;
    for (size_t i = 1; i < c.notes[s].ranked().size(); ++i)
      EXPECT_LE(c.notes[s].ranked()[i - 1].estimate.cycles, c.notes[s].ranked()[i].estimate.cycles);
    EXPECT_EQ(taken, c.notes[s].ranked()[0].schedule.name);
  }
  EXPECT_GE(ranked, 26);
  options.choices["conv10"].schedule = parse_schedule("conv2d_direct vectors=1 rows=1 tile=1 prefetch=0");
  const Compiled bad = compiled(options);
  const StepNotes& notes = bad.notes[static_cast<size_t>(find(bad, "conv10") - bad.plan.steps.data())];
  EXPECT_GT(notes.estimate->cycles, 3 * notes.ranked()[0].estimate.cycles);
}

}  // namespace
}  // namespace kilter
