// Tuning with an agent of a fleet that measures; both run on the same machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <set>
#include <thread>

#include "../base/error_of.h"
#include "base/cpu_info.h"
#include "checked_case.h"
#include "fleet/agent/agent.h"
#include "fleet/remote_runner.h"
#include "measure/conditions.h"
#include "network.h"
#include "packing/foreign_recipe.h"
#include "short_run.h"
#include "support/databases.h"

namespace kilter::tune {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Remote : public ::testing::Test {
 protected:
  ~Remote() override { stop_agent(); }
  void start_agent(const std::string& name = "agent", const std::vector<int>& cpus = affinity_cpus()) {
    stop_ = false;
    agent_ = std::thread([this, name, cpus] {
      set_affinity(cpus);  // this also applies to its worker
      fleet::AgentOptions options;
      options.connect = [this] { return std::make_unique<fleet::Queue>(url_); };
      options.name = name, options.device_class = "this", options.device = "this machine";
      options.worker = KILTER_WORKER, options.trust = fleet::Trust::in_anyone();
      done_ += fleet::run_agent(options, stop_).done;
    });
  }
  void stop_agent() {
    stop_ = true;
    if (agent_.joinable()) agent_.join();
  }
  RunnerOptions remote(const std::string& device_class = "this", double patience = 60) const {
    RunnerOptions options = worker();
    fleet::RemoteOptions there;
    there.url = url_, there.device_class = device_class, there.patience_seconds = patience;
    options.make = [there](RunnerOptions made) -> std::unique_ptr<Runner> {
      return std::make_unique<fleet::RemoteRunner>(there, std::move(made));
    };
    return options;
  }
  std::unique_ptr<Runner> runner(std::vector<Tensor> inputs) const {
    RunnerOptions options = remote();
    options.inputs = std::move(inputs);
    return make_runner(std::move(options));
  }
  NetworkBench bench(RunnerOptions options) const {
    const Graph graph = small_network();
    options.inputs = inputs_of(graph);
    return {graph, native(), std::move(options)};
  }

  const std::string url_ = server().url(new_database());
  std::atomic<bool> stop_ = false;
  std::atomic<int64_t> done_ = 0;
  std::thread agent_;
};

/// Returns the median of a layer's times.
double median_ms(const std::vector<Lap>& laps) {
  std::vector<double> all;
  for (const Lap& lap : laps) all.push_back(lap.total_ms);
  std::ranges::nth_element(all, all.begin() + std::ssize(all) / 2);
  return all[all.size() / 2];
}

TEST_F(Remote, VariantsAreLoadedCheckedAndMeasured) {
  start_agent();
  NetworkBench there = bench(remote());
  LayerChoice slow;
  slow.schedule = parse_schedule("conv2d_direct vectors=1 rows=1 tile=1 prefetch=0");
  const auto variant = there.build({{"fire2.expand3x3", slow}});
  const Loaded loaded = there.load(*variant);
  ASSERT_TRUE(loaded.id.has_value());
  EXPECT_THAT(loaded.faults, IsEmpty());
  EXPECT_EQ(loaded.step_ms.size(), variant->compiled.plan.steps.size());
  const std::vector<VariantId> ids{there.fallback_id(), *loaded.id};
  MeasureOptions how;
  how.rounds = 3;
  const Laps laps = there.runner().measure(ids, how);
  EXPECT_EQ(laps.ids, ids);
  EXPECT_EQ(laps.rounds, 3);
  EXPECT_THAT(laps.faults, IsEmpty());
  ASSERT_FALSE(laps.laps[0].empty());
  ASSERT_FALSE(laps.laps[1].empty());
  EXPECT_EQ(laps.laps[1][0].step_ms.size(), variant->compiled.plan.steps.size());
  EXPECT_GT(median_ms(laps.laps[1]), median_ms(laps.laps[0])) << "one layer has the slowest tile";
  EXPECT_GT(there.runner().best_ms(), 0);
  there.runner().drop(*loaded.id);
  EXPECT_THAT(error_of([&] { there.runner().measure(ids); }), HasSubstr("cannot be measured: it is not loaded"));
}

/// Wrong values in a variant: a constant is shifted after the check values are known.
TEST_F(Remote, WrongVariantIsFound) {
  start_agent();
  NetworkBench there = bench(remote());
  const auto variant = there.build({});
  Plan plan = variant->compiled.plan;
  for (Step& step : plan.steps) {
    for (BufferRef& ref : step.args) {
      if (step.name == "fire2.squeeze" && ref.space == kilter::Space::constant && ref.bytes > 1024)
        ref.offset += 64, ref.bytes -= 64;
    }
  }
  const Loaded loaded = there.runner().load(plan, step_values(variant->compiled));
  ASSERT_FALSE(loaded.faults.empty());
  EXPECT_EQ(loaded.faults.front().kind, FaultKind::wrong);
  EXPECT_EQ(loaded.faults.front().layer, "fire2.squeeze");
}

/// The plan runs on the agent, and the reference kernels in this process.
TEST_F(Remote, LayersAreCheckedAgainstReferenceKernels) {
  start_agent();
  CheckedCase net(small_network());
  const auto there = runner(net.inputs);
  const ReferenceCheck right = net.check(*there);
  EXPECT_EQ(right.wrong, "");
  EXPECT_GT(right.values, 20);
  net.change_weights_of("fire5.squeeze", 40);
  const ReferenceCheck wrong = net.check(*there);
  EXPECT_THAT(wrong.wrong, HasSubstr("value 'fire5.squeeze.relu' of layer 'fire5.squeeze' (conv2d n1 "));
  ASSERT_TRUE(wrong.layer);
  EXPECT_EQ(wrong.layer->node, "fire5.squeeze");
}

TEST_F(Remote, ChoicesAreCheckedAgainstReferenceKernels) {
  start_agent();
  NetworkBench there = bench(remote());
  EXPECT_EQ(check_default(there).wrong, "");
  LayerChoice slow;
  slow.schedule = parse_schedule("conv2d_direct vectors=1 rows=1 tile=1 prefetch=0");
  const ReferenceCheck check = check_choices(there, {{"fire2.expand3x3", slow}});
  EXPECT_EQ(check.wrong, "");
  EXPECT_EQ(check.values, 1);
}

TEST_F(Remote, ValuesLargerThanAnAnswerComeFromSeveralRuns) {
  start_agent();
  NetworkBench there = bench(remote());
  const Tap tap{0, there.fallback().compiled.plan.steps.front().args.back()};
  ASSERT_NE(kTracedAtOnce % tap.buffer.bytes, 0) << "one of them is divided";
  const std::vector<Tap> taps(static_cast<size_t>(kTracedAtOnce / tap.buffer.bytes + 3), tap);
  const Traced traced = there.runner().trace(there.fallback_id(), taps);
  ASSERT_EQ(traced.values.size(), taps.size());
  EXPECT_EQ(std::ssize(traced.values.front()), tap.buffer.bytes);
  EXPECT_TRUE(std::ranges::all_of(traced.values, [&](const auto& v) { return v == traced.values.front(); }));
}

TEST_F(Remote, CrashingVariantIsNamed) {
  start_agent();
  NetworkBench there = bench(remote());
  const auto variant = there.build({});
  Plan plan = variant->compiled.plan;
  std::vector<std::byte> code(plan.code, plan.code + plan.code_bytes);
  const auto bad = std::ranges::find_if(plan.steps, [](const Step& s) { return s.name == "fire2.squeeze"; });
  constexpr std::array<uint8_t, 2> kIllegal = kThisArch == Arch::aarch64 ? std::array<uint8_t, 2>{0, 0}         // udf
                                                                         : std::array<uint8_t, 2>{0x0f, 0x0b};  // ud2
  std::byte* const entry = code.data() + plan.entries[static_cast<size_t>(bad->kernel)];
  for (size_t i = 0; i < 2; ++i) std::memcpy(entry + 2 * i, kIllegal.data(), kIllegal.size());
  plan.code = code.data();
  const Loaded loaded = there.runner().load(plan, {}, {.check = false});
  ASSERT_TRUE(loaded.id);
  const Traced traced = there.runner().trace(*loaded.id, {});
  ASSERT_TRUE(traced.fault);
  EXPECT_EQ(traced.fault->variant, *loaded.id);
  EXPECT_THAT(traced.fault->words, HasSubstr("signal 4 (Illegal instruction) at step "));
  EXPECT_EQ(traced.fault->layer, "fire2.squeeze");
  EXPECT_THAT(error_of([&] { there.runner().trace(*loaded.id, {}); }), HasSubstr("cannot be traced again"));
}

/// Also of constants that an earlier build packed.
TEST_F(Remote, RecipesGiveTheConstantsOfThePlan) {
  start_agent();
  NetworkBench there = bench(remote());
  const auto variant = there.build({});
  const Plan& plan = variant->compiled.plan;
  EXPECT_EQ(plan.recipes.size(), there.fallback().compiled.plan.recipes.size());
  for (const RecipeOfConstant& one : plan.recipes) {
    const Tensor source = as_packed(one.source, one.type);
    ASSERT_EQ(fault_of(one.recipe, one.type, source.bytes(), one.bytes), std::nullopt);
    std::vector<std::byte> packed(static_cast<size_t>(one.bytes));
    pack(one.recipe, one.type, source.raw(), one.type, packed.data());
    EXPECT_TRUE(std::ranges::equal(packed, std::span(plan.constants + one.offset, packed.size()))) << one.offset;
  }
  EXPECT_TRUE(bench_of(small_network()).fallback().compiled.plan.recipes.empty()) << "nobody needs them here";
}

/// A variant with new schedules sends code but no packed weights. The agent packs them from the model's weights, and
/// compares the variant's values with the default's.
TEST_F(Remote, WeightsAreSentOnceForAllPackings) {
  start_agent();
  const auto sent = [this] {
    return run_on_server(url_, "SELECT sum(octet_length(bytes)) FROM kilter.blobs").number(0, 0);
  };
  NetworkBench there = bench(remote());
  std::set<int64_t> known;
  int64_t packed = 0, new_packed = 0;
  for (const RecipeOfConstant& one : there.fallback().compiled.plan.recipes) {
    packed += one.bytes;
    known.insert(one.offset);
  }
  EXPECT_GT(packed, 2'500'000) << "most of the weights";
  const int64_t first = sent();
  LayerChoice other;
  other.schedule = parse_schedule("conv2d_winograd m=4 vectors=1 tile=4 count=1 split=1 prefetch=0");
  const auto variant = there.build({{"fire8.expand3x3", other}, {"fire9.expand3x3", other}});
  for (const RecipeOfConstant& one : variant->compiled.plan.recipes) {
    if (!known.contains(one.offset)) new_packed += one.bytes;
  }
  EXPECT_GT(new_packed, 4'000'000) << "two layers' filters";
  const Loaded loaded = there.load(*variant);
  ASSERT_TRUE(loaded.id.has_value());
  EXPECT_THAT(loaded.faults, IsEmpty());
  EXPECT_LT(sent() - first, new_packed / 4) << "the package";
}

TEST_F(Remote, AnotherAgentContinuesWhenOneEnds) {
  start_agent("first");
  NetworkBench there = bench(remote());
  const auto variant = there.build({});
  const Loaded loaded = there.load(*variant);
  ASSERT_TRUE(loaded.id.has_value());
  stop_agent();
  start_agent("second");
  const std::vector<VariantId> ids{there.fallback_id(), *loaded.id};
  const Laps laps = there.runner().measure(ids);
  EXPECT_THAT(laps.faults, IsEmpty());
  EXPECT_FALSE(laps.laps[1].empty());
  EXPECT_GE(done_, 2);
}

TEST_F(Remote, MissingAgentClassListsOtherAgents) {
  start_agent();
  const std::string error = error_of([&] { bench(remote("cortex-a72", 3)); });
  EXPECT_EQ(error,
            "no agent of the device class cortex-a72 is known; other agents: agent (this); start one (kilter-agent), "
            "or name another class");
}

TEST_F(Remote, TuningFindsAFasterPlan) {
  const std::vector<int> all = affinity_cpus();
  const CpuShares shares = cpus_for(1);
  start_agent("agent", shares.measuring);
  set_affinity(shares.building);  // as if the agent were on another machine
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.runner = remote();
  options.trials = 60;
  const Graph graph = small_network();
  const TuneResult result = tune(graph, inputs_of(graph), slow_default(), options);
  set_affinity(all);
  fmt::print("{:.1f} trials a second, after / before {:.3f}\n", result.trials_per_second, result.ratio.value);
  EXPECT_LT(result.ratio.high, 1);
  EXPECT_TRUE(result.confined);
  EXPECT_FALSE(kept.empty());
}

}  // namespace
}  // namespace kilter::tune
