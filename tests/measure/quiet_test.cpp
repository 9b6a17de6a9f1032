#include "measure/quiet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include "base/ticks.h"
#include "competitor.h"
#include "fake_machine.h"

namespace kilter {
namespace {

using testing::HasSubstr;

TEST(Quiet, NothingHappenedIsNotDisturbed) {
  FakeMachine machine;
  QuietWatch watch({}, machine.quiet());
  EXPECT_EQ(watch.usual_chain_ns(), 0);
  watch.start();
  const Disturbance d = watch.stop(1);
  EXPECT_FALSE(d.disturbed());
  EXPECT_EQ(d.why(), "");
  EXPECT_EQ(d.weight(), 0);
  EXPECT_EQ(watch.usual_chain_ns(), 4000);
}

TEST(Quiet, StealTimeDisturbs) {
  FakeMachine machine;
  QuietWatch watch({}, machine.quiet());
  watch.start();
  machine.state.steal_ms += 10;
  const Disturbance d = watch.stop(100);
  EXPECT_TRUE(d.stolen);
  EXPECT_EQ(d.why(), "10.0 ms stolen by the hypervisor");
  EXPECT_NEAR(d.weight(), 0.1, 1e-12);
  machine.state.steal_ms += 10;
  EXPECT_FALSE(watch.stop(2000).disturbed()) << "0.5 % of the sample";
}

TEST(Quiet, WaitingForACpuDisturbs) {
  FakeMachine machine;
  QuietWatch watch({}, machine.quiet());
  watch.start();
  machine.state.wait_ms += 3;
  machine.state.switches += 2;
  const Disturbance d = watch.stop(4);
  EXPECT_TRUE(d.waited);
  EXPECT_EQ(d.why(), "waited 3.00 ms for a CPU, 2 involuntary context switches");
}

TEST(Quiet, ASwitchDisturbsShortSamplesOnly) {
  FakeMachine machine;
  QuietWatch watch({}, machine.quiet());
  watch.start();
  machine.state.switches += 1;
  EXPECT_EQ(watch.stop(1).why(), "1 involuntary context switch");
  machine.state.switches += 1;
  EXPECT_FALSE(watch.stop(50).disturbed());
}

TEST(Quiet, DriftDisturbsUntilItIsUsual) {
  FakeMachine machine;
  QuietWatch watch({}, machine.quiet());
  watch.start();
  for (int i = 0; i < 31; ++i) EXPECT_FALSE(watch.stop(1).disturbed());
  machine.state.chain_ns = 4200;
  const Disturbance slower = watch.stop(1);
  EXPECT_TRUE(slower.drifted);
  EXPECT_EQ(slower.why(), "core 5.0 % slower");
  for (int i = 0; i < 31; ++i) watch.stop(1);
  EXPECT_EQ(watch.usual_chain_ns(), 4200);
  EXPECT_FALSE(watch.stop(1).disturbed());
  machine.state.chain_ns = 4000;
  EXPECT_EQ(watch.stop(1).why(), "core 4.8 % faster");
}

TEST(Quiet, EventsBeforeStartAreIgnored) {
  FakeMachine machine;
  QuietWatch watch({}, machine.quiet());
  watch.start();
  machine.stall(5);
  watch.start();
  EXPECT_FALSE(watch.stop(1).disturbed());
}

TEST(Quiet, DisturbancesAddUp) {
  Disturbance a;
  a.wall_ms = 1, a.wait_ms = 2, a.switches = 1, a.drift = -0.05, a.waited = true;
  Disturbance b;
  b.wall_ms = 3, b.steal_ms = 10, b.drift = 0.01, b.stolen = true;
  a.add(b);
  EXPECT_EQ(a.wall_ms, 4);
  EXPECT_EQ(a.drift, -0.05);
  EXPECT_TRUE(a.waited && a.stolen);
  EXPECT_NEAR(a.weight(), (2 + 10 + 0.02) / 4 + 0.05, 1e-12);
}

TEST(Quiet, ReadingsOfThisMachineArePlausible) {
  const QuietReading first = read_quiet();
  const QuietReading second = read_quiet();
  EXPECT_GE(second.steal_ms, first.steal_ms);
  EXPECT_GE(second.wait_ms, first.wait_ms);
  EXPECT_GE(second.switches, first.switches);
  EXPECT_GT(first.chain_ns, 500) << "2^14 dependent instructions are faster than any clock";
  EXPECT_LT(first.chain_ns, 1e6);
}

// With another process on the same CPU, this one waits half of the time; both get many time slices in 400 ms.
TEST(Quiet, CompetitorForTheCpuIsDetected) {
  if (!read_quiet().has_wait) GTEST_SKIP() << "this kernel does not tell how long threads wait";
  const int cpu = sched_getcpu();
  const PinnedTo pinned(cpu);
  const Competitor competitor(cpu);
  QuietWatch watch;
  watch.start();
  const uint64_t start = ticks();
  while (ms_between(start, ticks()) < 400) {
  }
  const Disturbance d = watch.stop(ms_between(start, ticks()));
  EXPECT_TRUE(d.waited) << d.wait_ms;
  EXPECT_GT(d.wait_ms, 40);
  EXPECT_GT(d.switches, 0);
  EXPECT_THAT(d.why(), HasSubstr("waited "));
}

TEST(ReferenceWidth, TakesAboutAsLongEachTime) {
  // A chain of dependent instructions runs at one per cycle. No processor starts ten in a cycle.
  const double chain_ns = reference_chain_ns(20) / (1 << 14);
  double least = reference_width_ns();
  for (int i = 0; i < 200; ++i) least = std::min(least, reference_width_ns());
  EXPECT_GT(least, (1 << 11) * chain_ns / 10);
  EXPECT_LT(least, (1 << 11) * chain_ns * 0.8);
}

TEST(DisturbedCount, NamesTheMostCommonReasonFirst) {
  DisturbedCount count;
  EXPECT_EQ(count.why(), "");
  Disturbance calm, waited, both;
  waited.waited = both.waited = both.drifted = true;
  count.add(calm, 5);
  count.add(both, 2);
  count.add(waited);
  EXPECT_EQ(count.taken, 8);
  EXPECT_EQ(count.disturbed, 3);
  EXPECT_EQ(count.why(), "waited for a CPU in 3, a different clock rate in 2");
}

}  // namespace
}  // namespace kilter
