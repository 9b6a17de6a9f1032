// The output of `kilter inspect --schedules`: each layer with its schedule, and every template with its reason.
#include "profile/schedules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "schedule/problem/problem.h"
#include "schedule/templates/templates.h"
#include "zoo/zoo.h"

namespace kilter::profile {
namespace {

using testing::HasSubstr;
using testing::Not;

Compiled lowered(const std::string& network, CompileOptions options = {}, int64_t size = 64) {
  if (options.target.name.empty()) options.target = parse_target("x86-64-v4");
  options.contents.alternatives = true;
  options.contents.code = false;
  return compile_graph(zoo::build(network, {.size = size}), options);
}

CpuLimits limits() { return parse_target("x86-64-v4").limits; }

nlohmann::json layer(const Compiled& c, const std::string& node) {
  const nlohmann::json all = schedules_json(c, limits(), node);
  EXPECT_EQ(all.at("layers").size(), 1U);
  return all.at("layers").at(0);
}

/// The first layer whose default is conv2d_depthwise.
std::string depthwise_layer(const Compiled& c) {
  for (const Step& s : c.plan.steps) {
    if (s.schedule.starts_with("conv2d_depthwise ")) return s.name;
  }
  return "none";
}

nlohmann::json of_template(const nlohmann::json& layer, std::string_view name) {
  for (const auto& t : layer.at("templates")) {
    if (t.at("template") == name) return t;
  }
  return {};
}

TEST(Schedules, LoweringAloneMakesAPlanWithoutCode) {
  const Compiled c = lowered("squeezenet1_1");
  EXPECT_EQ(c.plan.code_bytes, 0);
  EXPECT_TRUE(c.plan.entries.empty());
  CompileOptions options;
  options.target = parse_target("x86-64-v4");
  const Compiled whole = compile_graph(zoo::build("squeezenet1_1", {.size = 64}), options);
  ASSERT_EQ(c.plan.steps.size(), whole.plan.steps.size());
  EXPECT_EQ(c.plan.arena_bytes, whole.plan.arena_bytes);
  for (size_t s = 0; s < c.plan.steps.size(); ++s) {
    EXPECT_EQ(c.plan.steps[s].schedule, whole.plan.steps[s].schedule);
    EXPECT_EQ(c.plan.steps[s].key, whole.plan.steps[s].key);
    EXPECT_EQ(c.notes[s].loops, whole.notes[s].loops);
    EXPECT_EQ(c.notes[s].loops != 0, c.plan.steps[s].kind == StepKind::kernel);
  }
}

TEST(Schedules, EveryTemplateOfEveryLayerHasAStanding) {
  const Compiled c = lowered("squeezenet1_1");
  const nlohmann::json report = schedules_json(c, limits());
  EXPECT_EQ(report.at("format"), "kilter-schedules-1");
  EXPECT_EQ(report.at("target"), "x86-64-v4");
  size_t steps = 0;
  for (const auto& l : report.at("layers")) {
    steps += l.at("stages").size();
    if (l.at("kind") == "halo") continue;
    ASSERT_EQ(l.at("templates").size(), all_templates().size()) << l.dump(1);
    int64_t chosen = 0;
    for (const auto& t : l.at("templates")) {
      chosen += t.at("standing") == "chosen" ? 1 : 0;
      if (t.at("standing") != "rejected") {
        EXPECT_TRUE(t.contains("schedule")) << t;
        continue;
      }
      for (const char* part : {"check", "limit", "got"}) EXPECT_FALSE(t.at("rejected").at(part).empty()) << t;
    }
    EXPECT_EQ(chosen, 1) << l.dump(1);
    EXPECT_GT(l.at("bound").at("cycles"), 0) << l.at("name");
    if (l.contains("predicted") && l.at("bound").at("by") == "arithmetic") {
      // The models leave out fused element-wise operations, which are at most 4 % of the arithmetic here.
      const nlohmann::json& p = l.at("predicted");
      EXPECT_GE(p.value("model_cycles", p.at("cycles").get<double>()) * 1.04, l.at("bound").at("cycles").get<double>())
          << l.at("name") << ": no schedule beats the arithmetic of its kernels";
    }
  }
  EXPECT_EQ(steps, c.plan.steps.size());
}

TEST(Schedules, WinogradAndDirectConvolutionAreBothPredicted) {
  const Compiled c = lowered("squeezenet1_1", {}, 96);
  const nlohmann::json l = layer(c, "fire4.expand3x3");
  EXPECT_EQ(l.at("schedule").at("template"), "conv2d_winograd");
  const nlohmann::json winograd = of_template(l, "conv2d_winograd"), direct = of_template(l, "conv2d_direct");
  EXPECT_EQ(direct.at("standing"), "behind");
  EXPECT_FALSE(direct.contains("rejected"));
  ASSERT_FALSE(direct.at("ranked").empty());
  EXPECT_GT(direct.at("ranked").at(0).at("cycles"), winograd.at("ranked").at(0).at("cycles"));
  EXPECT_THAT(winograd.at("approximates").get<std::string>(), HasSubstr(" u of the largest sum of magnitudes"));
  EXPECT_FALSE(direct.contains("approximates"));
  EXPECT_GT(l.at("effective_flops"), l.at("flops"));
  const std::string text = schedules_text(c, limits(), "fire4.expand3x3");
  EXPECT_THAT(text, HasSubstr("    schedule    conv2d_winograd m="));
  EXPECT_THAT(text, HasSubstr("    accuracy    approximates: largest error "));
  EXPECT_THAT(text, HasSubstr("    behind      conv2d_direct vectors="));
  EXPECT_THAT(text, HasSubstr("applies, but ranks behind the chosen template"));
  EXPECT_THAT(text, HasSubstr("      ranked    conv2d_direct vectors="));
  EXPECT_THAT(text, Not(HasSubstr("pool1")));
}

TEST(Schedules, TemplatesForOtherTasksAreNotListed) {
  const Compiled squeezenet = lowered("squeezenet1_1", {}, 96), mobilenet = lowered("mobilenet_v1");
  const auto rejected = [](const Compiled& c, const std::string& node) {
    std::string lines;
    const std::string text = schedules_text(c, limits(), node);
    for (const std::string_view l : split(text, '\n')) {
      if (l.starts_with("    rejected    ")) lines += std::string(l.substr(16)) + "\n";
    }
    return lines;
  };
  EXPECT_THAT(rejected(squeezenet, "fire4.expand3x3"),
              testing::StartsWith("for other kinds of tasks: conv2d_then_depthwise (feeder: a convolution), "
                                  "conv2d_depthwise (groups: more than one), conv2d_amx (target: with AMX), "
                                  "conv2d_plain_amx (target: with AMX), conv2d_pixels (layout of the output: plain), "
                                  "conv_transpose (conv_transpose), "
                                  "matmul_amx (MatMul), matmul_tiled (MatMul), "));
  EXPECT_THAT(rejected(squeezenet, "fire4.squeeze"),
              testing::StartsWith("conv2d_winograd: kernel: limit 3x3, 1x3, 3x1, 1x7 or 7x1, got 1x1\n"
                                  "for other kinds of tasks: conv2d_then_depthwise (feeder: a convolution), "));
  EXPECT_THAT(rejected(squeezenet, "pool1"),
              testing::StartsWith("for other kinds of tasks: conv2d_then_depthwise (feeder: a convolution), "
                                  "conv2d_depthwise (conv), conv2d_amx (conv), "
                                  "conv2d_plain_amx (conv), conv2d_winograd (conv), "
                                  "conv2d_direct (conv), "));
  EXPECT_THAT(rejected(mobilenet, depthwise_layer(mobilenet)),
              HasSubstr("conv2d_direct (channels of a group: more than one in or out), "));
  EXPECT_EQ(
      of_template(layer(squeezenet, "pool1"), "conv2d_direct").at("rejected"),
      (nlohmann::json{{"check", "operator family"}, {"limit", "conv"}, {"got", "MaxPool"}, {"other_kind", true}}));
}

/// Returns the layers, and the ranked schedules of their templates, whose prediction is below the bound; and the number
/// of predictions that the bound raised.
std::pair<std::string, int> below_bound(const std::string& network, const std::string& target) {
  CompileOptions options;
  options.target = parse_target(target);
  const nlohmann::json report = schedules_json(lowered(network, options, 224), options.target.limits);
  std::string below;
  int lifted = 0;
  for (const auto& l : report.at("layers")) {
    if (!l.contains("predicted")) continue;
    const double bound = l.at("bound").at("cycles"), cycles = l.at("predicted").at("cycles");
    if (cycles < bound) below += fmt::format("{} ", l.at("name").get<std::string>());
    if (l.at("predicted").contains("model_cycles")) {
      ++lifted;
      EXPECT_LT(l.at("predicted").at("model_cycles").get<double>(), cycles);
      EXPECT_DOUBLE_EQ(cycles, bound);
    }
    const nlohmann::json own = of_template(l, l.at("schedule").at("template").get<std::string>());
    for (const auto& r : own.at("ranked")) {
      if (r.at("schedule") == l.at("schedule").at("text")) {
        EXPECT_EQ(r.at("cycles"), cycles) << l.at("name");
      }
      const bool exact = l.at("flops") == l.at("effective_flops");
      if (exact && r.at("cycles") < bound) below += r.at("schedule").get<std::string>() + " ";
    }
  }
  return {below, lifted};
}

TEST(Schedules, NoPredictionIsBelowTheBound) {
  int lifted = 0;
  for (const char* network : {"squeezenet1_1", "mobilenet_v2"}) {
    for (const char* target : {"x86-64-v3", "znver4", "neoverse-n1"}) {
      const auto [below, count] = below_bound(network, target);
      EXPECT_EQ(below, "") << network << " for " << target;
      lifted += count;
    }
  }
  EXPECT_GT(lifted, 0) << "models leave out fused element-wise operations";
}

TEST(Schedules, LayersThatGaveUpWinogradForMemorySaySo) {
  const auto need = [](const Compiled& c) { return c.weight_bytes + c.plan.arena_bytes; };
  CompileOptions options;
  options.accuracy = Accuracy::strict;
  const Compiled fast = lowered("resnet18", {}, 128), direct = lowered("resnet18", options, 128);
  options = {};
  options.budget.memory = need(direct) + (need(fast) - need(direct)) / 4;
  const Compiled slim = lowered("resnet18", options, 128);
  const nlohmann::json weights = schedules_json(slim, limits()).at("weights");
  EXPECT_EQ(weights.at("memory"), *options.budget.memory);
  EXPECT_EQ(weights.at("wanted"), fast.weight_bytes);
  EXPECT_EQ(weights.at("limit"), *options.budget.memory - slim.plan.arena_bytes);
  EXPECT_LE(weights.at("bytes"), weights.at("limit"));
  ASSERT_GE(weights.at("slimmed").size(), 2U);
  size_t direct_now = 0;
  for (const std::string node : weights.at("slimmed")) {
    const nlohmann::json l = layer(slim, node);
    const nlohmann::json& given_up = l.at("given_up");
    const std::string before = given_up.at("schedule");
    EXPECT_EQ(before, layer(fast, node).at("schedule").at("text").get<std::string>());
    EXPECT_GT(given_up.at("weight_bytes"), given_up.at("now_weight_bytes"));
    const std::string text = schedules_text(slim, limits(), node);
    EXPECT_THAT(text, testing::StartsWith("memory: "));
    EXPECT_THAT(text, HasSubstr(fmt::format("    memory      --memory ruled out {}: ", before)));
    if (l.at("schedule").at("template") != "conv2d_direct") continue;
    ++direct_now;
    EXPECT_EQ(of_template(l, "conv2d_winograd").at("standing"), "given_up");
    EXPECT_THAT(text, HasSubstr("    given_up    conv2d_winograd m="));
    EXPECT_THAT(text, HasSubstr(": applies, but its packed weights are too large (--memory)\n"));
  }
  EXPECT_GT(direct_now, 0U);
  EXPECT_THAT(memory_text(slim), HasSubstr(" layers run kernels with smaller weights than their fastest ones: "));
  EXPECT_EQ(memory_text(fast), "");
  EXPECT_THAT(schedules_text(fast, limits()), Not(HasSubstr("memory ")));
}

TEST(Schedules, ReportedErrorIsThatOfTheRunningSchedule) {
  CompileOptions options;
  for (const char* m : {"2", "4"}) {
    const std::string schedule = fmt::format("conv2d_winograd m={} vectors=1 tile=4 count=1 split=0 prefetch=0", m);
    options.choices["fire4.expand3x3"].schedule = parse_schedule(schedule);
    const std::string text = schedules_text(lowered("squeezenet1_1", options, 96), limits(), "fire4.expand3x3");
    EXPECT_THAT(text, HasSubstr(fmt::format("    accuracy    approximates: {}\n", approximation_of(schedule))));
  }
  EXPECT_NE(approximation_of("conv2d_winograd m=2"), approximation_of("conv2d_winograd m=4"));
  for (const char* exact : {"conv2d_direct vectors=1", "reference", ""})
    EXPECT_EQ(approximation_of(exact), "") << exact;
}

TEST(Schedules, StrictAccuracyAndForcedSchedulesShowDisplacedOnes) {
  CompileOptions options;
  options.accuracy = Accuracy::strict;
  const nlohmann::json strict = layer(lowered("squeezenet1_1", options, 96), "fire4.expand3x3");
  EXPECT_EQ(of_template(strict, "conv2d_winograd").at("standing"), "barred");
  EXPECT_EQ(of_template(strict, "conv2d_winograd").at("rejected").at("got"), "strict");
  EXPECT_EQ(of_template(strict, "conv2d_direct").at("standing"), "chosen");
  options = {};
  options.choices["fire4.expand3x3"].schedule = parse_schedule("conv2d_direct vectors=1 rows=1 tile=1 prefetch=0");
  const nlohmann::json forced = layer(lowered("squeezenet1_1", options, 96), "fire4.expand3x3");
  EXPECT_EQ(of_template(forced, "conv2d_winograd").at("standing"), "preferred");
  EXPECT_EQ(of_template(forced, "conv2d_direct").at("schedule"), "conv2d_direct vectors=1 rows=1 tile=1 prefetch=0");
  EXPECT_GT(forced.at("predicted").at("cycles"),
            3 * of_template(forced, "conv2d_winograd").at("ranked").at(0).at("cycles").get<double>());
}

TEST(Schedules, UnfusedNodesSayWhyTheyAreSeparate) {
  CompileOptions options;
  options.choices["conv1"].fuse = Fusion::none;
  const Compiled c = lowered("squeezenet1_1", options);
  const nlohmann::json relu = layer(c, "conv1.relu");
  ASSERT_EQ(relu.at("apart").size(), 1U);
  EXPECT_EQ(relu.at("apart").at(0),
            (nlohmann::json{{"node", "conv1.relu"}, {"from", "conv1"}, {"reason", "--no-fuse conv1"}}));
  EXPECT_THAT(schedules_text(c, limits(), "conv1.relu"),
              HasSubstr("apart       'conv1.relu' does not run in 'conv1': --no-fuse conv1\n"));
  EXPECT_FALSE(layer(c, "fire2.squeeze").contains("apart"));
}

TEST(Schedules, TheBoundCountsTheMultiplyAddsOfTheTarget) {
  const auto cycles = [](const std::string& target) {
    CompileOptions options;
    options.target = parse_target(target);
    const Compiled c = lowered("squeezenet1_1", options);
    return schedules_json(c, options.target.limits, "fire2.squeeze")
        .at("layers")
        .at(0)
        .at("bound")
        .at("cycles")
        .get<double>();
  };
  EXPECT_DOUBLE_EQ(cycles("znver4"), 2 * cycles("znver5")) << "its units are half as wide";
}

TEST(Schedules, ProductsOfBytesHaveTheBoundOfTheirInstruction) {
  const auto cycles = [](const std::string& level) {
    CompileOptions options;
    options.target = parse_target("znver5");
    options.contents.code = false;
    const Problem p = parse_problem(
        fmt::format("matmulnbits(f32[512,256] u8[256,8,16] f32[256,8] K=256 N=256{} bits=4 block_size=32)", level));
    const Compiled c = compile_graph(p.graph, options);
    const nlohmann::json bound = schedules_json(c, options.target.limits).at("layers").at(0).at("bound");
    EXPECT_EQ(bound.at("by"), "arithmetic");
    return bound.at("cycles").get<double>();
  };
  EXPECT_DOUBLE_EQ(cycles(""), 4 * cycles(" accuracy_level=4")) << "it adds four products in each lane";
}

TEST(Schedules, StagesOfOneTaskAreOneLayer) {
  CompileOptions options;
  options.choices["fire4.expand3x3"].schedule =
      parse_schedule("conv2d_winograd m=2 vectors=1 tile=9 count=1 split=1 prefetch=0");
  const nlohmann::json l = layer(lowered("squeezenet1_1", options, 96), "fire4.expand3x3");
  ASSERT_EQ(l.at("stages").size(), 2U);
  EXPECT_EQ(l.at("stages").at(0).at("flops").get<int64_t>() + l.at("stages").at(1).at("flops").get<int64_t>(),
            l.at("flops"));
  EXPECT_EQ(l.at("templates").size(), all_templates().size());
}

TEST(Schedules, ANodeOfTheModelNamesTheLayersThatRunIt) {
  const Compiled c = lowered("resnet18");
  EXPECT_EQ(layer(c, "conv1.relu").at("name"), "conv1");
  EXPECT_THAT(schedules_text(c, limits(), "conv1.relu"), testing::StartsWith("'conv1.relu' runs in conv1\n\n"));
  EXPECT_THAT(schedules_text(c, limits(), "fc"), testing::StartsWith("MatMul+Add 'fc'"));
}

TEST(Schedules, UnknownNodeIsAnError) {
  const Compiled c = lowered("squeezenet1_1");
  try {
    schedules_text(c, limits(), "nothing");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_THAT(error.message(),
                testing::StartsWith("--node nothing: no layer has this name; legal values are conv1, conv10"));
  }
}

TEST(Rivals, OwnRunnerUpThenTheBestOfOtherTemplatesThenTheRest) {
  const Compiled c = lowered("squeezenet1_1", {}, 224);
  size_t seen = 0;
  for (size_t s = 0; s < c.plan.steps.size(); ++s) {
    const std::vector<TemplateView>& views = c.notes[s].templates;
    const TemplateView* own = chosen_of(views);
    if (own == nullptr || own->ranked.size() < 2) continue;
    const Schedule taken = parse_schedule(c.plan.steps[s].schedule);
    const std::vector<Ranked> all = rivals(views, taken);
    size_t others = 0, most = own->ranked.size();
    for (const TemplateView& v : views) {
      if (&v == own || v.ranked.empty()) continue;
      ++others;
      most += v.ranked.size();
      ASSERT_GT(all.size(), others);
      EXPECT_EQ(all[others].schedule, v.ranked.front().schedule);
    }
    seen += others;
    EXPECT_EQ(all.front().schedule.name, taken.name);
    for (size_t i = others + 2; i < all.size(); ++i) EXPECT_LE(all[i - 1].estimate.cycles, all[i].estimate.cycles);
    for (const Ranked& r : all) EXPECT_FALSE(r.schedule == taken);
    EXPECT_LE(all.size(), most);
    EXPECT_GE(all.size(), most - 1);
  }
  EXPECT_GE(seen, 8U) << "3x3 convolutions have two templates with a model";
}

}  // namespace
}  // namespace kilter::profile
