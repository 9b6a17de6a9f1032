// Networks that must fit into less memory: which layers change their schedules, and the error if that is impossible.
#include "compile/stages/memory_budget.h"

#include <gmock/gmock.h>

#include "../base/error_of.h"
#include "compile/compile.h"
#include "compile/session.h"
#include "ops/support/cases.h"
#include "zoo/zoo.h"

namespace kilter {
namespace {

using ::testing::HasSubstr;

Holding holding(const std::string& schedule, int64_t bytes, double cycles) {
  return {parse_schedule(schedule), bytes, cycles};
}

TEST(MemoryBudget, CheapestSavingsAreMadeFirst) {
  const std::vector<Tradable> tasks = {
      {"a", holding("fast", 100, 10), {holding("middle", 60, 14), holding("small", 20, 50)}},
      {"b", holding("fast", 100, 10), {holding("middle", 80, 11), holding("large", 300, 1)}},
  };
  // Cycles per byte saved: a costs 0.1 from fast to middle, 0.5 from fast to small and 0.9 from middle to small; b
  // costs 0.05 from fast to middle and never changes to a larger schedule.
  const auto schedules = [&](int64_t excess) {
    std::string text;
    for (const auto& [node, schedule] : trade(tasks, excess).schedules) text += node + ":" + schedule.name + " ";
    return text;
  };
  EXPECT_EQ(schedules(0), "");
  EXPECT_EQ(schedules(1), "b:middle ");
  EXPECT_EQ(schedules(21), "a:middle b:middle ");
  EXPECT_EQ(schedules(61), "a:small b:middle ");
  EXPECT_EQ(trade(tasks, 1000).saved, 100) << "no more than there is";
}

constexpr int64_t kEnough = int64_t{1} << 40;

Compiled compile(const std::optional<int64_t>& memory) {
  CompileOptions options;
  options.target = parse_target("x86-64-v3");
  options.budget.memory = memory;
  return compile_graph(zoo::build("resnet18", {.size = 128, .classes = 10}), options);
}

int64_t winograd_layers(const Compiled& compiled) {
  return std::count_if(compiled.plan.steps.begin(), compiled.plan.steps.end(), [](const Step& s) {
    return s.ops.starts_with("Conv") && s.schedule.starts_with("conv2d_winograd");
  });
}

int64_t need(const Compiled& compiled) { return compiled.plan.constants_bytes + compiled.plan.arena_bytes; }

Tensor answer(Compiled compiled) {
  Tensor x(DType::f32, {1, 3, 128, 128});
  for (int64_t i = 0; i < x.elems(); ++i) x.data<float>()[i] = static_cast<float>(i % 97) / 97 - 0.5F;
  const auto program = std::make_shared<const Program>(std::move(compiled.plan));
  Loaded loaded{program, std::make_unique<Instance>(program, std::make_shared<ThreadPool>(1)), {}};
  return run_plan(loaded, {x}).at(0);
}

TEST(MemoryBudget, LayersGiveUpWinogradUntilTheNetworkFits) {
  const Compiled fast = compile(kEnough);
  EXPECT_TRUE(fast.slimmed.empty());
  ASSERT_GE(winograd_layers(fast), 4);
  int64_t last = winograd_layers(fast) + 1;
  for (const double share : {0.97, 0.9, 0.82}) {
    const auto memory = static_cast<int64_t>(static_cast<double>(need(fast)) * share);
    Compiled slim = compile(memory);
    EXPECT_LE(need(slim), memory);
    EXPECT_FALSE(slim.slimmed.empty());
    EXPECT_LE(winograd_layers(slim), last);
    last = winograd_layers(slim);
    if (runs_here(parse_target("x86-64-v3"))) {
      const auto difference = compare(answer(std::move(slim)), answer(compile(kEnough)), {1e-4F, 1e-4F});
      EXPECT_FALSE(difference.has_value()) << *difference;
    }
  }
}

TEST(MemoryBudget, ByDefaultWeightsTakeAtMostTwoAndAHalfTimesTheParameters) {
  // One convolution whose transformed weights are four times as large as its filters: 151 MB instead of 38 MB.
  const auto weights = [](const std::optional<int64_t>& memory, int64_t channels) {
    const std::string shape = fmt::format("f32[1,{0},28,28] f32[{0},{0},3,3] | pads=[1,1,1,1]", channels);
    const OpDef& conv = *find_op("", "Conv", 11);
    ParsedCase parsed = parse_case(conv, shape);
    parsed.operands[1].kind = CaseOperand::Kind::constant;
    CompileOptions options;
    options.target = parse_target("znver5");
    options.budget.memory = memory;
    return compile_graph(make_case(conv, parsed, shape).graph, options).plan.constants_bytes;
  };
  const int64_t parameters = int64_t{1024} * 1024 * 9 * 4;
  EXPECT_GT(weights(kEnough, 1024), parameters * 5 / 2);
  EXPECT_LE(weights(std::nullopt, 1024), parameters * 5 / 2);
  EXPECT_EQ(weights(std::nullopt, 64), weights(kEnough, 64)) << "small networks may grow as they like";
}

/// Options with the fastest plan's Winograd schedules, forced (`given`) or as if they came from records, and 90 % of
/// its memory.
CompileOptions recorded(const Compiled& fast, bool given) {
  CompileOptions options;
  const Origin from = given ? Origin() : Origin{ScheduleSource::record, "a record"};
  for (const Step& step : fast.plan.steps) {
    if (step.schedule.starts_with("conv2d_winograd"))
      options.choices[step.name] = {parse_schedule(step.schedule), from};
  }
  options.target = parse_target("x86-64-v3");
  options.budget.memory = need(fast) * 9 / 10;
  return options;
}

Graph small_resnet() { return zoo::build("resnet18", {.size = 128, .classes = 10}); }

TEST(MemoryBudget, RecordedSchedulesAreGivenUpLikeDefaults) {
  const Compiled fast = compile(kEnough);
  const Compiled slim = compile_graph(small_resnet(), recorded(fast, false));
  EXPECT_LE(need(slim), need(fast) * 9 / 10);
  ASSERT_FALSE(slim.slimmed.empty());
  for (const Step& step : slim.plan.steps) {
    if (std::ranges::find(slim.slimmed, step.name) == slim.slimmed.end()) continue;
    EXPECT_EQ(step.record, "") << step.name << " no longer runs what the record says";
  }
}

TEST(MemoryBudget, GivenSchedulesAreKeptEvenIfNothingFits) {
  const Compiled fast = compile(kEnough);
  EXPECT_THAT(error_of([&] { compile_graph(small_resnet(), recorded(fast, true)); }),
              HasSubstr("no layer has a kernel with smaller weights"));
}

TEST(MemoryBudget, PreferredSchedulesAreUsedWhereLegal) {
  CompileOptions options;
  options.target = parse_target("x86-64-v3");
  const auto schedule_of = [&](const std::string& node) {
    for (const Step& step : compile_graph(small_resnet(), options).plan.steps) {
      if (step.name == node && step.kind == StepKind::kernel) return step.schedule;
    }
    return std::string("no step");
  };
  const std::string conv1 = schedule_of("conv1");
  const std::string winograd = "conv2d_winograd m=2 vectors=1 tile=2 count=1 split=0 prefetch=0";
  for (const char* node : {"conv1", "layer1.0.conv1"}) options.choices[node] = preferred(parse_schedule(winograd));
  EXPECT_EQ(schedule_of("conv1"), conv1) << "it is 7x7 with stride 2";
  EXPECT_EQ(schedule_of("layer1.0.conv1"), winograd);
  options.accuracy = Accuracy::strict;
  EXPECT_TRUE(schedule_of("layer1.0.conv1").starts_with("conv2d_direct"));
}

TEST(MemoryBudget, WeightsAreUnlimitedIfTheLimitIsOff) {
  const Compiled fast = compile(kEnough);
  CompileOptions options;
  options.target = parse_target("x86-64-v3");
  options.budget.memory = need(fast) * 9 / 10;
  options.budget.limit_weights = false;
  const Compiled free = compile_graph(small_resnet(), options);
  EXPECT_TRUE(free.slimmed.empty());
  EXPECT_EQ(free.weight_bytes, fast.weight_bytes);
  EXPECT_LT(free.weight_limit, free.weight_bytes);
}

TEST(MemoryBudget, TooSmallBudgetNamesTheRequiredMemory) {
  const std::string error = error_of([] { compile(1000); }, ErrorKind::usage);
  EXPECT_THAT(error, HasSubstr("--memory 1000: 'resnet18' needs "));
  EXPECT_THAT(error, HasSubstr(" bytes: packed weights "));
  EXPECT_THAT(error, HasSubstr(" layers already run kernels with smaller weights. Give at least that much, or compile "
                               "for a smaller input"));
}

}  // namespace
}  // namespace kilter
