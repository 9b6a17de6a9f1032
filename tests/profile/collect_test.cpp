// Profiles of real networks: rows add up, disturbed passes change nothing, and times are attributed to the right rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <set>
#include <thread>

#include "base/error.h"
#include "explain_network.h"
#include "network.h"
#include "profile/profile.h"

namespace kilter::profile {
namespace {

Profile profile_of(TestNetwork& net, int threads, Options options = {}) {
  return collect(net.instance(), net.plan(), threads, net.from, net.to, options);
}

Options quick() {
  Options o;
  o.seconds = 0.3;
  return o;
}

TEST(Collect, RowsAddUpToTheSumAndPercentTo100) {
  TestNetwork net("zoo:squeezenet1_1");
  const Profile p = profile_of(net, 1, quick());
  double rows = 0, percent = 0;
  for (const Row& r : p.rows) rows += r.time.mean, percent += r.percent;
  EXPECT_NEAR(rows, p.sum_ms, 1e-9);
  EXPECT_NEAR(percent, 100, 1e-6);
  EXPECT_NEAR(p.sum_ms, p.kernels_ms + p.barriers_ms + p.gaps_ms, 1e-9);
  EXPECT_NEAR(p.total_ms, p.sum_ms + p.residual_ms, 1e-9);
  EXPECT_LE(std::abs(p.residual_ms), 0.01 * p.total_ms);
  EXPECT_GE(p.passes, quick().min_passes);
  EXPECT_EQ(p.kept, p.passes - 2 * (p.passes / 4));
}

TEST(Collect, EveryStepOfThePlanHasItsRowInOrder) {
  TestNetwork net("zoo:squeezenet1_1");
  const Profile p = profile_of(net, 1, quick());
  ASSERT_EQ(p.rows.size(), net.plan().steps.size() + 3);
  for (size_t i = 0; i < net.plan().steps.size(); ++i) {
    EXPECT_EQ(p.rows[i].step, static_cast<int64_t>(i));
    EXPECT_EQ(p.rows[i].name, net.plan().steps[i].name);
    EXPECT_EQ(p.rows[i].count, 1);
    EXPECT_GT(p.rows[i].time.mean, 0) << p.rows[i].name;
  }
  for (size_t i = net.plan().steps.size(); i < p.rows.size(); ++i) EXPECT_EQ(p.rows[i].kind, RowKind::gap);
}

TEST(Collect, RowsNameTheRowsAndInputsThatTheyRead) {
  TestNetwork net("zoo:squeezenet1_1");
  const Profile p = profile_of(net, 1, quick());
  const auto reads = [&](const std::string& name) {
    const auto row = std::ranges::find(p.rows, name, &Row::name);
    std::vector<std::string> names = row->reads_inputs;
    for (const size_t from : row->reads) {
      if (p.rows.at(from).kind != RowKind::halo) names.push_back(p.rows[from].name);
    }
    return names;
  };
  EXPECT_THAT(reads("conv1"), testing::ElementsAre("input"));
  EXPECT_THAT(reads("fire3.squeeze"), testing::ElementsAre("fire2.expand1x1", "fire2.expand3x3"));
  EXPECT_THAT(p.rows.back().reads, testing::IsEmpty());  // a gap
}

/// One pass in five stalls before and after two steps, for longer than a whole run takes.
TEST(Collect, StalledPassesDoNotChangeRows) {
  TestNetwork net("zoo:squeezenet1_1");
  Options options = quick();
  options.min_passes = 30;
  const Profile calm = profile_of(net, 1, options);
  StepObserver stall;
  const auto wait = [](size_t step) {
    if (step == 3 || step == 7) std::this_thread::sleep_for(std::chrono::milliseconds(60));
  };
  stall.before = wait;
  stall.after = wait;
  int stalled = 0;
  options.observer = [&](int64_t pass) -> const StepObserver* {
    if (pass % 5 != 2) return nullptr;
    ++stalled;
    return &stall;
  };
  const Profile p = profile_of(net, 1, options);
  EXPECT_GE(stalled, 6);
  // If the stalled passes counted in the means, the gaps alone would grow by 2 * 2 * 60 / 5 ms.
  for (size_t i = 0; i < p.rows.size(); ++i) {
    EXPECT_LT(p.rows[i].time.mean, 3 * calm.rows[i].time.mean + 2) << p.rows[i].name;
  }
}

TEST(Collect, RowsIncludeThreadTimesAndBarriers) {
  TestNetwork net("zoo:squeezenet1_1", 2);
  Profile p = profile_of(net, 2, quick());
  for (int i = 0; i < 4 && quietness(p.conditions) != Quietness::quiet; ++i) p = profile_of(net, 2, quick());
  int shared = 0;
  for (const Row& r : p.rows) {
    if (r.kind == RowKind::gap) continue;
    ASSERT_EQ(r.busy_ms.size(), 2U);
    EXPECT_LE(r.barrier_ms, r.time.mean + 1e-9) << r.name;
    EXPECT_GE(r.barrier_ms, 0) << r.name;
    EXPECT_GT(r.balance, 0) << r.name;
    EXPECT_LE(r.balance, 1 + 1e-9) << r.name;
    for (double busy : r.busy_ms) EXPECT_LE(busy, r.time.mean * (1 + 1e-6)) << r.name;
    shared += r.threads == 2 ? 1 : 0;
  }
  // A thread whose CPU another process uses may get no share of the work.
  if (quietness(p.conditions) != Quietness::quiet)
    GTEST_SKIP() << "other processes used the CPUs in " << p.conditions.disturbed << " of " << p.conditions.taken
                 << " runs";
  EXPECT_GT(shared, 10);
}

TEST(Collect, MoreThreadsThanCpusStillAddUp) {
  const int threads = static_cast<int>(std::thread::hardware_concurrency()) * 4;
  TestNetwork net("zoo:squeezenet1_1", threads);
  const Profile p = profile_of(net, threads, quick());
  EXPECT_LE(std::abs(p.residual_ms), 0.02 * p.total_ms);
  for (const Row& r : p.rows) EXPECT_GE(r.barrier_ms, 0) << r.name;
}

TEST(Collect, TimelineHoldsOnePassInOrder) {
  TestNetwork net("zoo:squeezenet1_1", 2);
  const Profile p = profile_of(net, 2, quick());
  std::vector<double> last(2, 0);
  for (const Event& e : p.timeline) {
    ASSERT_LT(e.row, p.rows.size());
    EXPECT_GE(e.begin_us, last[static_cast<size_t>(e.thread)]);
    EXPECT_GE(e.end_us, e.begin_us);
    last[static_cast<size_t>(e.thread)] = e.end_us;
  }
  EXPECT_LE(last[0], p.total.high * 1.5e3 + 100);
}

TEST(Collect, ConditionsSayWhatWasMeasured) {
  TestNetwork net("zoo:squeezenet1_1");
  const Profile p = profile_of(net, 1, quick());
  EXPECT_EQ(p.conditions.threads, 1);
  EXPECT_EQ(p.conditions.target, net.plan().target);
  EXPECT_EQ(p.conditions.codegen, net.plan().codegen);
  EXPECT_EQ(p.conditions.records, "none");
  EXPECT_FALSE(p.conditions.device.empty());
  EXPECT_EQ(p.conditions.taken, 2 * p.passes);
  EXPECT_EQ(p.conditions.kept, 2 * p.kept);
}

TEST(Collect, SumIsComparedWithEndToEndRuns) {
  TestNetwork net("zoo:squeezenet1_1");
  const Profile p = profile_of(net, 1, quick());
  const Ratio& r = p.sum_over_end_to_end;
  EXPECT_NEAR(r.value, p.sum_ms / p.end_to_end_ms, 1e-9) << "the figures shown are those of the interval";
  EXPECT_LE(r.low, r.value);
  EXPECT_GE(r.high, r.value);
  EXPECT_NE(agreement(r), Agreement::differ);
}

TEST(Agreement, DependsOnTheInterval) {
  EXPECT_EQ(agreement({1.02, 1.01, 1.03}), Agreement::agree);
  EXPECT_EQ(agreement({1.04, 1.02, 1.06}), Agreement::agree) << "it touches 3 %";
  EXPECT_EQ(agreement({1.05, 1.04, 1.06}), Agreement::differ);
  EXPECT_EQ(agreement({0.95, 0.93, 0.96}), Agreement::differ);
  EXPECT_EQ(agreement({1.0, 0.9, 1.1}), Agreement::unknown) << "an interval that wide touches anything";
}

TEST(Collect, DisturbedPassesAreCountedByReason) {
  TestNetwork net("zoo:squeezenet1_1");
  Options options = quick();
  options.read_quiet = quiet_machine();
  Profile p = profile_of(net, 1, options);
  EXPECT_EQ(p.conditions.disturbed, 0);
  EXPECT_EQ(quietness(p.conditions), Quietness::quiet);
  EXPECT_GT(p.conditions.best_ms, 0);
  EXPECT_LE(p.conditions.best_ms, p.end_to_end_ms);
  options.read_quiet = busy_machine();
  p = profile_of(net, 1, options);
  EXPECT_EQ(p.conditions.disturbed, p.conditions.taken);
  EXPECT_THAT(p.conditions.disturbed_by, testing::StartsWith("waited for a CPU in "));
  EXPECT_EQ(quietness(p.conditions), Quietness::busy);
}

/// A layer that runs several kernels has one row for each.
TEST(Collect, RowNamesAreUnique) {
  TestNetwork net("zoo:squeezenet1_1");
  const Profile p = profile_of(net, 1, quick());
  std::set<std::string> labels;
  bool transform = false;
  for (const Row& r : p.rows) {
    EXPECT_TRUE(labels.insert(r.label()).second) << r.label();
    transform |= r.stage == "transform";
  }
  EXPECT_TRUE(transform) << "Winograd's kernels are two";
  EXPECT_TRUE(labels.contains("fire4.expand3x3"));
  EXPECT_TRUE(labels.contains("fire4.expand3x3 (transform)"));
}

TEST(Stages, AreTheSameForAnyPlan) {
  Plan plan;
  const auto add = [&](const std::string& name, const std::string& ops, const std::string& schedule) {
    Step step;
    step.name = name, step.schedule = schedule;
    step.role = ops == "pack" ? StepRole::pack : StepRole::layer;
    plan.steps.push_back(step);
  };
  add("a", "pack", "matmul_tiled"), add("a", "pack", "matmul_tiled"), add("a", "MatMul", "matmul_tiled");
  add("b", "Conv", "conv2d_winograd m=4"), add("b", "Conv", "conv2d_winograd m=4");
  add("c", "LSTM", "recurrent"), add("c", "LSTM", "recurrent"), add("c", "LSTM", "recurrent");
  EXPECT_EQ(labels_of(plan), (std::vector<std::string>{"a (pack 1)", "a (pack 2)", "a", "b (transform)", "b",
                                                       "c (stage 1)", "c (stage 2)", "c"}));
}

TEST(Group, SumsRowsByTaskAndOperator) {
  TestNetwork net("zoo:squeezenet1_1");
  const Profile p = profile_of(net, 1, quick());
  for (const char* by : {"layer", "operator", "task"}) {
    double ms = 0;
    int64_t count = 0;
    for (const Row& r : group(p.rows, by)) ms += r.time.mean, count += r.kind == RowKind::gap ? 0 : r.count;
    EXPECT_NEAR(ms, p.sum_ms, 1e-9) << by;
    EXPECT_EQ(count, static_cast<int64_t>(net.plan().steps.size())) << by;
  }
  EXPECT_LT(group(p.rows, "operator").size(), group(p.rows, "task").size());
  EXPECT_LT(group(p.rows, "task").size(), p.rows.size());
  try {
    group(p.rows, "colour");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.message(), "--by colour: legal values are layer, operator, task");
  }
}

}  // namespace
}  // namespace kilter::profile
