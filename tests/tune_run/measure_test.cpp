// Measurements in rounds of interleaved variants, some of which fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <set>

#include "../base/error_of.h"
#include "hand_made.h"

namespace kilter::tune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

class Measure : public testing::Test {
 protected:
  void SetUp() override { trusted_ = load({}); }
  VariantId load(const std::map<int, Deed>& deeds, bool check = true) {
    const Plan plan = hand_made(deeds);
    const Loaded loaded = runner_.load(plan, hand_made_values(plan), {.check = check});
    EXPECT_THAT(loaded.faults, IsEmpty());
    return loaded.id.value_or(0);
  }
  LocalRunner runner_{hand_made_options()};
  VariantId trusted_ = 0;
};

/// Returns the indices of the variants in the order in which they ran in a round.
std::vector<size_t> sequence(const Laps& laps, int64_t round) {
  std::vector<std::pair<int64_t, size_t>> runs;
  for (size_t v = 0; v < laps.laps.size(); ++v) {
    for (const Lap& lap : laps.laps[v]) {
      if (lap.round == round) runs.emplace_back(lap.order, v);
    }
  }
  std::sort(runs.begin(), runs.end());
  std::vector<size_t> out;
  for (const auto& [order, v] : runs) out.push_back(v);
  return out;
}

TEST_F(Measure, RoundsRunForwardAndBackInRandomOrder) {
  const std::vector<VariantId> ids = {trusted_, load({}), load({}), load({}), load({})};
  const Laps laps = runner_.measure(ids, {.rounds = 8, .slice_ms = 0});
  EXPECT_EQ(laps.rounds, 8);
  EXPECT_THAT(laps.faults, IsEmpty());
  EXPECT_EQ(laps.ids, ids);
  std::set<std::vector<size_t>> orders;
  for (int64_t round = 0; round < 8; ++round) {
    const std::vector<size_t> order = sequence(laps, round);
    ASSERT_THAT(order, SizeIs(10));
    EXPECT_TRUE(std::is_permutation(order.begin(), order.begin() + 5, std::vector<size_t>{0, 1, 2, 3, 4}.begin()));
    EXPECT_TRUE(std::equal(order.begin(), order.begin() + 5, order.rbegin()));
    orders.insert(order);
  }
  EXPECT_GT(orders.size(), 3U);
}

TEST_F(Measure, EveryStepHasItsTime) {
  const VariantId slow = load({{2, Deed::slow}});
  const Laps laps = runner_.measure(std::vector{trusted_, slow}, {.rounds = 3});
  for (const auto& lane : laps.laps) {
    ASSERT_GE(lane.size(), 6U);
    for (const Lap& lap : lane) {
      ASSERT_THAT(lap.step_ms, SizeIs(4));
      ASSERT_THAT(lap.gap_ms, SizeIs(4));
      ASSERT_THAT(lap.width, SizeIs(4));
      for (const double width : lap.width) EXPECT_GT(width, 0.1);
      double sum = 0;
      for (size_t s = 0; s < 4; ++s) sum += lap.step_ms[s] + lap.gap_ms[s];
      EXPECT_LE(sum, lap.total_ms * 1.0001);
      EXPECT_GT(sum, 0);
      EXPECT_GT(lap.disturbance.wall_ms, 0);
    }
  }
  const auto shortest = [&](size_t step) {
    double least = 1e9;
    for (const Lap& lap : laps.laps[1]) least = std::min(least, lap.step_ms[step]);
    return least;
  };
  EXPECT_GT(shortest(2), 1.0);
  EXPECT_GT(shortest(2), 10 * shortest(0));
}

TEST_F(Measure, ShortRunsAreRepeatedInATurn) {
  const Laps laps = runner_.measure(std::vector{trusted_}, {.rounds = 2, .slice_ms = 5});
  EXPECT_GT(laps.laps[0].size(), 100U);
}

TEST_F(Measure, TurnsHaveTheRequestedRuns) {
  const Laps laps = runner_.measure(std::vector{trusted_}, {.rounds = 3, .slice_ms = 0, .runs = 7});
  EXPECT_THAT(laps.laps[0], SizeIs(2 * 3 * 7));
}

TEST_F(Measure, SlowVariantsAreCutOff) {
  const VariantId slow = load({{2, Deed::slow}});
  const Laps laps = runner_.measure(std::vector{trusted_, slow}, {.rounds = 6, .cut_off = 10});
  EXPECT_THAT(laps.cut, ElementsAre(false, true));
  EXPECT_THAT(laps.laps[1], SizeIs(2));
  EXPECT_EQ(laps.rounds, 6);
  const Laps all = runner_.measure(std::vector{trusted_, slow}, {.rounds = 6});
  EXPECT_THAT(all.cut, ElementsAre(false, false));
  EXPECT_THAT(all.laps[1], SizeIs(12));
}

TEST_F(Measure, TimeLimitIsKept) {
  const VariantId slow = load({{2, Deed::slow}});
  const Laps laps = runner_.measure(std::vector{trusted_, slow}, {.rounds = 1000000, .max_ms = 200});
  EXPECT_GE(laps.rounds, 1);
  EXPECT_LT(laps.rounds, 200);
  EXPECT_GE(laps.wall_ms, 200);
}

TEST_F(Measure, CrashAffectsOnlyOneVariant) {
  const VariantId crashes = load({{2, Deed::illegal}}, false);
  const VariantId other = load({});
  const Laps laps = runner_.measure(std::vector{trusted_, crashes, other}, {.rounds = 20});
  EXPECT_THAT(brief(laps.faults), ElementsAre("2 crash layer2"));
  EXPECT_EQ(laps.faults[0].variant, crashes);
  EXPECT_THAT(laps.faults[0].words, StartsWith("signal 4 (Illegal instruction) at step 2 'layer2' while "));
  EXPECT_THAT(laps.laps[1], IsEmpty());
  for (size_t v : {size_t{0}, size_t{2}}) {
    std::set<int64_t> rounds;
    for (const Lap& lap : laps.laps[v]) rounds.insert(lap.round);
    EXPECT_GE(rounds.size(), 20U);
  }
  EXPECT_EQ(runner_.restarts(), 1);
  EXPECT_EQ(error_of([&] { (void)runner_.measure(std::vector{crashes}); }),
            fmt::format("variant {} cannot be measured again: it failed before", crashes));
  EXPECT_THAT(runner_.measure(std::vector{trusted_, other}).faults, IsEmpty());
}

TEST_F(Measure, HangsAndFailuresAffectOnlyTheirVariants) {
  const std::vector<VariantId> ids = {load({{0, Deed::hang}}, false), trusted_, load({{3, Deed::answer7}}, false)};
  const Laps laps = runner_.measure(ids, {.rounds = 5});
  std::vector<std::string> faults = brief(laps.faults);
  std::sort(faults.begin(), faults.end());
  EXPECT_THAT(faults, ElementsAre("0 timeout layer0", "3 crash layer3"));
  EXPECT_GE(laps.laps[1].size(), 10U);
  EXPECT_EQ(runner_.restarts(), 1);
}

TEST_F(Measure, KilledWorkerIsReplacedWithoutBlame) {
  const VariantId other = load({});
  kill(*runner_.worker_pid(), SIGKILL);
  const Laps laps = runner_.measure(std::vector{trusted_, other}, {.rounds = 3});
  EXPECT_THAT(laps.faults, IsEmpty());
  EXPECT_EQ(laps.rounds, 3);
  EXPECT_EQ(runner_.restarts(), 1);
  kill(*runner_.worker_pid(), SIGKILL);
  EXPECT_NE(load({}), 0);
  EXPECT_EQ(runner_.restarts(), 2);
}

TEST_F(Measure, ReplacedWorkersGetEveryVariantAgain) {
  const std::vector<VariantId> ids = {trusted_, load({}), load({}), load({})};
  kill(*runner_.worker_pid(), SIGKILL);
  (void)runner_.measure(std::vector{ids[0], ids[2]});  // the others are not in the new worker yet
  kill(*runner_.worker_pid(), SIGKILL);
  const Laps laps = runner_.measure(ids, {.rounds = 2});
  EXPECT_THAT(laps.faults, IsEmpty());
  for (const auto& lane : laps.laps) EXPECT_GE(lane.size(), 4U);
  EXPECT_EQ(runner_.restarts(), 2);
}

TEST_F(Measure, VariantThatAlwaysGetsTheWorkerKilledIsBlamed) {
  const Plan plan = hand_made({{1, Deed::killed}});
  const Loaded loaded = runner_.load(plan, hand_made_values(plan));
  EXPECT_FALSE(loaded.id);
  EXPECT_THAT(brief(loaded.faults), ElementsAre("1 memory layer1"));
  EXPECT_THAT(loaded.faults[0].words, HasSubstr("killed by another process, or by the system for lack of memory"));
}

TEST_F(Measure, OverwrittenTimesAreAFault) {
  const VariantId scribbles = load({{2, Deed::over_times}});
  const Laps laps = runner_.measure(std::vector{trusted_, scribbles}, {.rounds = 3});
  ASSERT_THAT(brief(laps.faults), ElementsAre("-1 crash "));
  EXPECT_EQ(laps.faults[0].variant, scribbles);
  EXPECT_EQ(laps.faults[0].words, "the times of the worker were overwritten while measuring");
  EXPECT_THAT(laps.laps[1], IsEmpty());
  EXPECT_GE(laps.laps[0].size(), 6U);
  EXPECT_EQ(runner_.restarts(), 1);
}

TEST_F(Measure, OverwrittenBoardIsAFault) {
  const Plan plan = hand_made({{1, Deed::over_board}});
  const Loaded loaded = runner_.load(plan, hand_made_values(plan));
  EXPECT_THAT(brief(loaded.faults), ElementsAre("-1 crash "));
  EXPECT_THAT(loaded.faults[0].words, HasSubstr(" while in no known phase"));
  const VariantId spoils = load({{1, Deed::over_board}}, false);
  const Laps laps = runner_.measure(std::vector{trusted_, spoils}, {.rounds = 2});
  ASSERT_THAT(brief(laps.faults), ElementsAre("-1 crash "));
  EXPECT_EQ(laps.faults[0].variant, spoils);
  EXPECT_GE(laps.laps[0].size(), 4U);
}

TEST_F(Measure, ManyRunsAreHandedOverInParts) {
  const VariantId other = load({});
  // A round of both variants writes 2 * 2 * 10 records of 192 bytes, so two rounds never fit into one request's log.
  const Laps laps =
      runner_.measure(std::vector{trusted_, other}, {.rounds = 5, .slice_ms = 0, .runs = 10, .log_bytes = 8000});
  EXPECT_THAT(laps.faults, IsEmpty());
  EXPECT_EQ(laps.rounds, 5);
  for (const auto& lane : laps.laps) {
    ASSERT_THAT(lane, SizeIs(2 * 5 * 10));
    EXPECT_EQ(lane.back().round, 4);
  }
  std::set<int64_t> orders;
  for (const auto& lane : laps.laps) {
    for (const Lap& lap : lane) orders.insert(lap.order);
  }
  EXPECT_THAT(orders, SizeIs(200));
}

TEST_F(Measure, RoundThatExceedsTheLogIsAUsageError) {
  EXPECT_EQ(error_of([&] { (void)runner_.measure(std::vector{trusted_}, {.runs = 20'000'000}); }, ErrorKind::usage),
            "the times of a round of 1 variants with at least 20000000 runs in a turn need 7680000000 bytes; the "
            "worker has room for 4294963200; ask for fewer runs in a turn, or fewer variants");
}

TEST_F(Measure, ReferenceStepsGetAWorkerThatCanRunThem) {
  Plan plan = hand_made();
  Step& step = plan.steps[2];
  step.kind = StepKind::reference;
  step.reference.op = "Add";
  step.reference.opset = 14;
  step.reference.attrs = "{}";
  step.args = {step.args[0], step.args[0], step.args[1]};
  const ReferenceCall::Operand operand{true, DType::f32, {kCount}};
  step.reference.inputs = {operand, operand};
  step.reference.outputs = {operand};
  const Loaded loaded = runner_.load(plan, hand_made_values(plan));
  ASSERT_TRUE(loaded.id);
  EXPECT_THAT(loaded.faults, IsEmpty());
  EXPECT_EQ(runner_.measure(std::vector{trusted_, *loaded.id}, {.rounds = 2}).rounds, 2);
  EXPECT_EQ(runner_.restarts(), 0) << "another program is no replacement after a fault";
}

TEST_F(Measure, DroppedVariantsAreGone) {
  const int64_t used = runner_.store().used_bytes();
  const VariantId other = load({});
  EXPECT_GT(runner_.store().used_bytes(), used);
  runner_.drop(other);
  EXPECT_EQ(runner_.store().used_bytes(), used);
  EXPECT_THROW((void)runner_.measure(std::vector{other}), Error);
  EXPECT_EQ(runner_.measure(std::vector{trusted_}).rounds, 1);
}

}  // namespace
}  // namespace kilter::tune
