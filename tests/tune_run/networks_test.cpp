// Variants of real networks in the worker: they are checked, corruption is found, and times are those of this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "compile/session.h"
#include "exec/trace.h"
#include "hand_made.h"
#include "measure/stats.h"
#include "tune/tuner/step_values.h"
#include "zoo/zoo.h"

namespace kilter::tune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Compiled compile(const std::string& network, CompileOptions options = {}, int64_t size = 64) {
  options.target = parse_target("native");
  return compile_graph(zoo::build(network, {.size = size}), options);
}

/// Returns the plan with a copy of the machine code, which the test can corrupt.
Plan with_code(const Plan& plan, std::shared_ptr<std::vector<std::byte>>& code) {
  code = std::make_shared<std::vector<std::byte>>(plan.code, plan.code + plan.code_bytes);
  Plan out = plan;
  out.owner = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(plan.owner, code);
  out.code = code->data();
  return out;
}

/// Returns the first step, from `from` on, whose kernel no other step uses.
size_t lone_kernel(const Plan& plan, size_t from) {
  for (size_t s = from; s < plan.steps.size(); ++s) {
    int users = 0;
    for (const Step& other : plan.steps) {
      users += other.kind == StepKind::kernel && other.kernel == plan.steps[s].kernel ? 1 : 0;
    }
    if (plan.steps[s].kind == StepKind::kernel && users == 1) return s;
  }
  return plan.steps.size();
}

RunnerOptions options_for(const Plan& plan) {
  RunnerOptions options = hand_made_options();
  options.inputs.clear();
  for (const PlanTensor& t : plan.inputs) options.inputs.push_back(random_input(t.name, t.type, t.shape));
  options.memory_bytes = int64_t{2} << 30;
  options.timeout_ms = 2000;
  return options;
}

class Networks : public testing::TestWithParam<const char*> {};

TEST_P(Networks, EveryCompilationIsCorrect) {
  const Compiled best = compile(GetParam());
  LocalRunner runner(options_for(best.plan));
  const Loaded trusted = runner.load(best.plan, step_values(best));
  ASSERT_TRUE(trusted.id) << (trusted.faults.empty() ? "" : trusted.faults[0].words);
  EXPECT_EQ(trusted.step_ms.size(), best.plan.steps.size());
  CompileOptions plain, unfused, reference;
  plain.debug.disable = {"choose_layouts"};
  for (const Step& s : best.plan.steps) {
    if (s.ops.find('+') != std::string::npos) unfused.choices[s.name].fuse = Fusion::none;
  }
  reference.debug.naive = true;
  for (const CompileOptions& way : {plain, unfused, reference}) {
    const Compiled other = compile(GetParam(), way);
    const Loaded loaded = runner.load(other.plan, step_values(other));
    for (const Fault& f : loaded.faults) ADD_FAILURE() << f.words;
    EXPECT_TRUE(loaded.id);
  }
  EXPECT_EQ(runner.restarts(), 0);
}
INSTANTIATE_TEST_SUITE_P(Zoo, Networks, testing::Values("squeezenet1_1", "mobilenet_v1", "resnet18"));

TEST(CorruptedPlans, EveryWrongLayerIsFoundAtItsStep) {
  const Compiled best = compile("squeezenet1_1");
  LocalRunner runner(options_for(best.plan));
  ASSERT_TRUE(runner.load(best.plan, step_values(best)).id);
  std::set<size_t> spoilt;
  std::shared_ptr<std::vector<std::byte>> code;
  const Plan plan = with_code(best.plan, code);
  std::vector<std::string> expected;
  for (size_t s = lone_kernel(plan, 0); s < plan.steps.size(); s = lone_kernel(plan, s + 1)) {
    std::byte* entry = code->data() + plan.entries[static_cast<size_t>(plan.steps[s].kernel)];
    entry[0] = std::byte{0x0F};  // ud2
    entry[1] = std::byte{0x0B};
    spoilt.insert(s);
    expected.push_back(fmt::format("{} crash {}", s, plan.steps[s].name));
    if (spoilt.size() == 5) break;
  }
  ASSERT_THAT(spoilt, SizeIs(5));
  const Loaded loaded = runner.load(plan, step_values(best));
  EXPECT_FALSE(loaded.id);
  EXPECT_EQ(brief(loaded.faults), expected);
  EXPECT_TRUE(runner.load(best.plan, step_values(best)).id);
}

TEST(CorruptedPlans, WrongWeightIsFoundOnlyAtItsLayer) {
  const Compiled best = compile("squeezenet1_1");
  LocalRunner runner(options_for(best.plan));
  ASSERT_TRUE(runner.load(best.plan, step_values(best)).id);
  const Tensor weights(DType::u8, {best.plan.constants_bytes});
  std::memcpy(weights.raw(), best.plan.constants, static_cast<size_t>(best.plan.constants_bytes));
  Plan plan = best.plan;
  plan.owner = std::make_shared<std::pair<std::shared_ptr<void>, Tensor>>(plan.owner, weights);
  plan.constants = weights.raw();
  size_t changed = 0;
  for (size_t s = 10; s < plan.steps.size() && changed == 0; ++s) {
    for (const BufferRef& ref : plan.steps[s].args) {
      if (ref.space != Space::constant || ref.bytes < 4096) continue;
      for (int64_t i = 0; i < ref.bytes / 4; ++i) reinterpret_cast<float*>(weights.raw() + ref.offset)[i] *= 1.1F;
      changed = s;
      break;
    }
  }
  ASSERT_NE(changed, 0U);
  const int64_t used = runner.store().used_bytes();
  const Loaded loaded = runner.load(plan, step_values(best));
  EXPECT_THAT(brief(loaded.faults), ElementsAre(fmt::format("{} wrong {}", changed, plan.steps[changed].name)));
  EXPECT_TRUE(loaded.id);
  EXPECT_LT(runner.store().used_bytes() - used, best.plan.constants_bytes / 2) << "equal constants are there once";
}

/// Milliseconds of each step of a plan, measured alternately in this process and in the worker. They are lower
/// quartiles, since other programs may use the machine.
struct BothTimes {
  std::vector<double> here, there;

  BothTimes(Runner& runner, VariantId id, const Plan& plan, const Tensor& input) {
    Instance instance(std::make_shared<const Program>(plan), std::make_shared<ThreadPool>(1));
    RunTrace trace(plan.steps.size(), 1);
    const std::vector<const std::byte*> from = {input.raw()};
    const Tensor output(plan.outputs[0].type, plan.outputs[0].shape);
    const std::vector<std::byte*> to = {output.raw()};
    std::vector<std::vector<double>> mine(plan.steps.size()), others(plan.steps.size());
    for (int turn = 0; turn < 10; ++turn) {
      for (int run = 0; run < 6; ++run) {
        instance.run(from, to, nullptr, &trace);
        for (size_t s = 0; run > 0 && s < trace.size(); ++s)
          mine[s].push_back(ms_between(trace.region(s).wall.begin, trace.region(s).wall.end));
      }
      const Laps laps = runner.measure(std::vector{id}, {.rounds = 3, .slice_ms = 0});
      for (const Lap& lap : laps.laps[0]) {
        for (size_t s = 0; s < lap.step_ms.size(); ++s) others[s].push_back(lap.step_ms[s]);
      }
    }
    for (size_t s = 0; s < mine.size(); ++s) {
      here.push_back(quantile(mine[s], 0.25));
      there.push_back(quantile(others[s], 0.25));
    }
  }

  /// Describes the differences; empty if the times agree.
  std::string differences(const Plan& plan) const {
    std::string out;
    double sum_here = 0, sum_there = 0;
    for (size_t s = 0; s < here.size(); ++s) {
      sum_here += here[s], sum_there += there[s];
      if (here[s] > 0.02 && std::abs(there[s] / here[s] - 1) > 0.5)
        out += fmt::format("{}: {} there, {} here\n", plan.steps[s].name, there[s], here[s]);
    }
    if (std::abs(sum_there / sum_here - 1) > 0.2) out += fmt::format("all: {} there, {} here\n", sum_there, sum_here);
    return out;
  }
};

// One of several attempts must succeed: another process on the core's other hardware thread may slow only one side, and
// weights that one process has placed badly in memory stay there until it ends.
TEST(Times, AgreeWithTheNetworkInThisProcess) {
  const Compiled best = compile("squeezenet1_1", {}, 224);
  const RunnerOptions options = options_for(best.plan);
  std::string differences = "not measured";
  for (int attempt = 0; attempt < 6 && !differences.empty(); ++attempt) {
    LocalRunner runner(options);
    const Loaded loaded = runner.load(best.plan, step_values(best));
    ASSERT_TRUE(loaded.id);
    differences = BothTimes(runner, *loaded.id, best.plan, options.inputs[0]).differences(best.plan);
  }
  EXPECT_EQ(differences, "");
}

}  // namespace
}  // namespace kilter::tune
