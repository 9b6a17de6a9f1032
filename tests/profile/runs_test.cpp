// The profile of runs on another machine: rows add up, disturbed runs are left out, and unknown values are not shown.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "network.h"
#include "profile/table.h"

namespace kilter::profile {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A run in which step s takes `ms` * (s + 1), each gap 0.5 ms, and the end 0.25 ms.
RunTimes run_of(const Plan& plan, double ms, bool disturbed = false) {
  RunTimes run;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    run.step.push_back(ms * static_cast<double>(s + 1)), run.gap.push_back(0.5);
    run.total += run.step.back() + run.gap.back();
  }
  run.total += 0.25;
  run.disturbance.waited = disturbed;
  return run;
}

Conditions elsewhere() {
  Conditions c;
  c.device = "a board", c.threads = 3;
  return c;
}

TEST(Runs, RowsAddUpToTheTotal) {
  TestNetwork net("zoo:squeezenet1_1", 1);
  std::vector<RunTimes> runs;
  for (const double ms : {1.0, 4.0, 2.0, 3.0}) runs.push_back(run_of(net.plan(), ms));
  const Profile p = of_runs(net.plan(), elsewhere(), runs);
  const size_t steps = net.plan().steps.size();
  ASSERT_EQ(p.rows.size(), steps + 3);
  EXPECT_DOUBLE_EQ(p.rows[2].time.mean, 2.5 * 3);  // the middle half are the runs with 2 and 3
  EXPECT_EQ(p.rows[2].gap_ms, 0.5);
  EXPECT_EQ(p.rows[steps].time.mean, 0.5);
  EXPECT_DOUBLE_EQ(p.rows[steps + 1].time.mean, 0.5 * static_cast<double>(steps - 1));
  EXPECT_NEAR(p.rows[steps + 2].time.mean, 0.25, 1e-9);
  EXPECT_NEAR(p.sum_ms, p.total_ms, 1e-9);
  EXPECT_NEAR(p.kernels_ms + p.gaps_ms, p.sum_ms, 1e-9);
  double percent = 0;
  for (const Row& row : p.rows) percent += row.percent;
  EXPECT_NEAR(percent, 100, 1e-9);
  EXPECT_EQ(p.passes, 4);
  EXPECT_EQ(p.kept, 2);
  EXPECT_EQ(p.threads, 3);
  EXPECT_EQ(p.conditions.device, "a board");
}

TEST(Runs, DisturbedRunsAreLeftOutUnlessMostAre) {
  TestNetwork net("zoo:squeezenet1_1", 1);
  std::vector<RunTimes> runs{run_of(net.plan(), 1), run_of(net.plan(), 1), run_of(net.plan(), 9, true),
                             run_of(net.plan(), 9, true)};
  const Profile p = of_runs(net.plan(), elsewhere(), runs);
  EXPECT_EQ(p.rows[0].time.mean, 1);
  EXPECT_EQ(p.conditions.taken, 4);
  EXPECT_EQ(p.conditions.disturbed, 2);
  EXPECT_EQ(p.conditions.disturbed_by, "waited for a CPU in 2");
  runs.push_back(run_of(net.plan(), 9, true));
  EXPECT_EQ(of_runs(net.plan(), elsewhere(), runs).rows[0].time.mean, (1 + 9 + 9) / 3.0);
}

TEST(Runs, UnknownFieldsAreNotShown) {
  TestNetwork net("zoo:squeezenet1_1", 1);
  const Profile p = of_runs(net.plan(), elsewhere(), {run_of(net.plan(), 1)});
  const std::string text = table(p, {.wide = true});
  for (const char* word : {" thr ", " bal\n", "End to end", "Residual", "peaks  "})
    EXPECT_THAT(text, Not(HasSubstr(word)));
  EXPECT_THAT(text, HasSubstr("agents report neither barriers nor the times of single threads"));
  const nlohmann::json json = to_json(p);
  for (const char* field : {"end_to_end_ms", "timeline", "barriers_ms"}) EXPECT_FALSE(json.contains(field));
  for (const char* field : {"threads", "balance", "busy_ms"}) EXPECT_FALSE(json["rows"][0].contains(field));
  EXPECT_EQ(json["rows"][0]["duration_ms"], 1);
  const std::string csv = to_csv(p);
  EXPECT_THAT(csv, HasSubstr(",1.000000,1.000000,1.000000,"));
  const std::string gap = csv.substr(csv.find("gap,after the last layer"));
  EXPECT_THAT(gap.substr(0, gap.find('\n')), HasSubstr(",,0.000000,,,0,"));
}

TEST(Runs, BoundsComeFromThePeaksOfTheOtherMachine) {
  TestNetwork net("zoo:squeezenet1_1", 1);
  Profile p = of_runs(net.plan(), elsewhere(), {run_of(net.plan(), 1)});
  Peaks peaks;
  peaks.gflops = {100, 150, 200}, peaks.l2_gbps = peaks.l3_gbps = peaks.dram_gbps = {1e6}, peaks.region_us = {0};
  set_bounds(p, net.plan(), peaks);
  const Row& first = p.rows[0];
  EXPECT_EQ(first.bound.kind, Bound::compute);
  EXPECT_NEAR(first.bound.ms, static_cast<double>(first.flops) / 200e6, 1e-9) << "the layer runs on three threads";
  EXPECT_FALSE(first.beats_bound());
  EXPECT_THAT(table(p, {}), HasSubstr("200.0 GFLOP/s FMA"));
  peaks.gflops = {1e-3};
  set_bounds(p, net.plan(), peaks);
  EXPECT_TRUE(p.rows[0].beats_bound());
  EXPECT_THAT(table(p, {}), HasSubstr("layers beat their bound"));
}

TEST(Runs, DisturbedPeaksAreMeasuredAgainAtMostTwice) {
  TestNetwork net("zoo:squeezenet1_1", 1);
  Profile p = of_runs(net.plan(), elsewhere(), {run_of(net.plan(), 1)});
  Peaks slow, fast;
  slow.gflops = {1e-3}, fast.gflops = {1e6};
  slow.region_us = fast.region_us = {0};
  int measured = 0;
  set_bounds(p, net.plan(), [&] { return ++measured < 2 ? slow : fast; });
  EXPECT_EQ(measured, 2);
  EXPECT_EQ(p.peaks.gflops[0], 1e6);
  Profile never = of_runs(net.plan(), elsewhere(), {run_of(net.plan(), 1)});
  set_bounds(never, net.plan(), [&] { return ++measured, slow; });
  EXPECT_EQ(measured, 5);
  EXPECT_TRUE(never.rows[0].beats_bound());
}

TEST(Runs, TimesOfAnotherPlanAreRefused) {
  TestNetwork net("zoo:squeezenet1_1", 1);
  RunTimes run = run_of(net.plan(), 1);
  run.step.pop_back();
  EXPECT_THROW(of_runs(net.plan(), elsewhere(), {run}), Error);
  EXPECT_THROW(of_runs(net.plan(), elsewhere(), {}), Error);
}

}  // namespace
}  // namespace kilter::profile
