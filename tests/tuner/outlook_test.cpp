// The gain of further tuning as predicted from records.
#include "tune/tuner/plans/outlook.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/files.h"
#include "base/text.h"
#include "tune/records/maintain.h"
#include "tune/tuner/left.h"

namespace kilter::tune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kConv = "conv2d n1 c64 h56 w56 k64 r3 s3 pad1 f32 +bias";
constexpr const char* kLike = "conv2d n1 c32 h28 w28 k32 r3 s3 pad1 f32 +bias";
constexpr const char* kOther = "conv2d n1 c64 h56 w56 k64 r1 s1 f32 +bias";
constexpr const char* kPool = "maxpool(f32[1,64,31,31] kernel_shape=3,3 strides=2,2)";
const OutlookFor kHere{{"", "", "znver5", "a machine", 1}, "net"};

Record record(const std::string& problem, const std::string& schedule, double ratio) {
  Record r;
  r.problem = problem, r.layouts = "c16 -> c16", r.schedule = schedule;
  r.samples_ms = {1, 1, 1, 1};
  r.versus = Versus{{ratio, ratio - 0.01, ratio + 0.01}, "conv2d_direct vectors=2 rows=1 tile=14 prefetch=0"};
  r.conditions.target = kHere.here.target, r.conditions.device = kHere.here.device, r.conditions.threads = 1;
  return r;
}

/// Records of `count` schedules of a problem: the first has the ratio `ratio`, the others are slower than the default.
std::vector<Record> tuned(const std::string& problem, double ratio, int count = kEnoughTried) {
  std::vector<Record> out;
  for (int i = 0; i < count; ++i)
    out.push_back(record(problem, "conv2d_direct vectors=2 rows=1 tile=" + std::to_string(i + 1) + " prefetch=0",
                         i == 0 ? ratio : 1.2));
  return out;
}

OutlookLayer layer(const std::string& problem, double ms, ScheduleSource from = ScheduleSource::fallback,
                   const std::string& node = "a") {
  const bool conv = problem.starts_with("conv2d");
  return {node, problem, "c16 -> c16", conv ? "conv2d_direct vectors=2 rows=1 tile=14 prefetch=0" : "map item=1024",
          from, ms};
}

/// The number of trials in `minutes` at the assumed rate.
double trials_in(double minutes) { return minutes * 60 * 30; }
/// The number of new schedules that a task with this share of the time tries in `minutes`.
double tries_in(double minutes, double share = 1) { return trials_in(minutes) * share * kTriedPerTrial; }
/// The expected gain left in a task whose first schedule was its best: the gain that noise may hide.
constexpr double kHidden = 0.005;

TEST(Outlook, WithoutRecordsThePriorIsUsed) {
  const std::vector<OutlookLayer> layers{layer(kConv, 1), layer("softmax(f32[1,1000])", 1)};
  const Outlook o = outlook(layers, 2, {}, kHere);
  EXPECT_EQ(o.unknown.layers, 2);
  EXPECT_EQ(o.further.layers, 1) << "a softmax has hardly any schedules";
  EXPECT_EQ(o.prior.layers, 1);
  EXPECT_NEAR(o.further.gain_ms, kDefaultLeft - mean_regret(trials_in(5)), 1e-9);
  EXPECT_THAT(text(o, "a.db"),
              ElementsAre("a.db contains no record from this machine at this number of threads:",
                          "   2 layers 100.0 % of the time  were not tuned, nor was any layer of the same kinds",
                          "   1 layer   50.0 % of the time  have schedules left to try: another 5 minutes of tuning "
                          "are expected to save about 2.1 % of the run",
                          "     (9000 trials at 30 a second, assumed; each doubling of the number of trials is "
                          "expected to gain half as much as the one before; no record covers 1 layer, for which the "
                          "searcher's mean regret is used as a prior)",
                          HasSubstr("These are estimates")));
  EXPECT_EQ(summary(o),
            "no record from this machine at this number of threads; another 5 minutes of tuning are expected to save "
            "about 2.1 % of the run (a prior)");
}

TEST(Outlook, WithoutRecordsAndSchedulesNothingIsKnown) {
  const std::vector<OutlookLayer> layers{layer("softmax(f32[1,1000])", 1)};
  EXPECT_THAT(
      text(outlook(layers, 2, {}, kHere), "a.db"),
      ElementsAre("a.db contains no record from this machine at this number of threads, so the gain of tuning is "
                  "not known; this command shows it:"));
}

TEST(Outlook, RecordsOfOtherMachinesAndThreadsAreIgnored) {
  std::vector<Record> records = tuned(kConv, 0.8);
  for (Record& r : records) r.conditions.threads = 2;
  const std::vector<OutlookLayer> layers{layer(kConv, 1)};
  EXPECT_EQ(outlook(layers, 2, records, kHere).records, 0);
  for (Record& r : records) r.conditions.threads = 1, r.conditions.device = "another machine";
  EXPECT_EQ(outlook(layers, 2, records, kHere).records, 0);
}

TEST(Outlook, RatiosAreConvertedToTheCurrentDefault) {
  const std::string other = "conv2d_direct vectors=2 rows=1 tile=28 prefetch=0";
  std::vector<Record> records = tuned(kConv, 0.8);
  for (Record& r : records) r.versus->schedule = other;
  const std::vector<OutlookLayer> layers{layer(kConv, 1)};
  const Outlook unrelated = outlook(layers, 1, records, kHere);
  EXPECT_EQ(unrelated.available.layers, 0);
  EXPECT_EQ(unrelated.settled.layers, 1);
  // Today's default took 0.9 of the other default's time, so 0.8 of the other's time is 0.8 / 0.9 of today's.
  records.push_back(record(kConv, layers.front().schedule, 0.9));
  records.back().versus->schedule = other;
  const Outlook o = outlook(layers, 1, records, kHere);
  EXPECT_EQ(o.available.layers, 1);
  EXPECT_NEAR(o.available.gain_ms, 1 - 0.8 / 0.9, 1e-9);
}

TEST(Outlook, EveryLayerIsInOnePart) {
  std::vector<Record> records = tuned(kConv, 0.8);
  for (const Record& r : tuned(kOther, 1.1)) records.push_back(r);
  records.push_back(record(kPool, "pool_rows tile=4", 1.1));
  const std::vector<OutlookLayer> layers{layer(kConv, 1), layer(kConv, 2, ScheduleSource::record),
                                         layer(kLike, 3), layer(kOther, 4),
                                         layer(kPool, 5), layer("softmax(f32[1,1000])", 6)};
  const Outlook o = outlook(layers, 100, records, kHere);
  EXPECT_EQ(o.tuned_tasks, 3);
  EXPECT_EQ(o.chosen.layers, 1);
  EXPECT_EQ(o.available.layers, 1);
  EXPECT_NEAR(o.available.gain_ms, 0.2, 1e-9);
  EXPECT_EQ(o.expected.layers, 1);
  EXPECT_NEAR(o.expected.gain_ms, 3 * 0.2, 1e-9);
  EXPECT_EQ(o.like, 1);
  EXPECT_EQ(o.settled.layers, 2);  // the pool counts, too: with few schedules, one try is enough
  EXPECT_NEAR(o.settled.ms, 9, 1e-9);
  EXPECT_EQ(o.unknown.layers, 1);
  const std::vector<std::string> lines = text(o, "a.db");
  ASSERT_EQ(lines.size(), 9U);
  EXPECT_EQ(lines[0], "From 17 records of 3 tuned tasks from this machine at this number of threads, in a.db:");
  EXPECT_THAT(lines[2], HasSubstr("--records would save about 0.2 % of the run"));
  EXPECT_THAT(
      lines[4],
      HasSubstr("tuning is expected to save about 0.6 % of the run, judging by 1 tuned task of the same kinds"));
  // All layers but the pool and the softmax. The gain expected for `kLike` is that of the tuned task of the same kind
  // plus the gain that is left in that task.
  EXPECT_EQ(o.further.layers, 4);
  EXPECT_EQ(o.prior.layers, 0);
  const auto gain = [](double ms) { return ms * gain_of_more(kHidden, 8, tries_in(5, ms / 10)); };
  EXPECT_NEAR(o.further.gain_ms, gain(3) + gain(4) + 3 * gain_of_more(0.2 + kHidden, 1, tries_in(5, 0.3)), 1e-9);
  EXPECT_EQ(lines[6],
            "   4 layers  10.0 % of the time  have schedules left to try: another 5 minutes of tuning are expected to "
            "save about 0.6 % of the run");
  EXPECT_EQ(lines[7],
            "     (9000 trials at 30 a second, assumed; each doubling of the number of trials is expected to gain half "
            "as much as the one before)");
  EXPECT_THAT(lines[8], HasSubstr("These are estimates"));
  EXPECT_EQ(summary(o),
            "4 of 6 layers were tuned; --records would save about 0.2 % of the run; another 5 minutes of tuning are "
            "expected to save about 0.6 % of the run");
}

TEST(Outlook, MoreMinutesGainMore) {
  const std::vector<Record> records = tuned(kConv, 0.8);
  const std::vector<OutlookLayer> layers{layer(kConv, 1)};
  OutlookFor what = kHere;
  double before = 0;
  for (const double minutes : {0.1, 1.0, 60.0}) {
    what.minutes = minutes;
    const Outlook o = outlook(layers, 1, records, what);
    EXPECT_GT(o.further.gain_ms, before);
    EXPECT_NEAR(o.further.gain_ms, gain_of_more(kHidden, 8, tries_in(minutes)), 1e-9);
    before = o.further.gain_ms;
  }
  what.minutes = 1;
  EXPECT_THAT(text(outlook(layers, 1, records, what), "a.db"),
              testing::Contains(HasSubstr("another 1 minute of tuning are expected")));
}

/// `count` records at ten per second, starting at second `from` of a minute.
std::vector<Record> at_ten_a_second(int count, int from = 0, const std::string& network = "net") {
  std::vector<Record> out = tuned(kConv, 0.8, count);
  for (int i = 0; i < count; ++i) {
    out[i].conditions.date = fmt::format("2026-03-01T12:34:{:02}Z", from + i / 10);
    out[i].network = network;
  }
  return out;
}

TEST(Outlook, TrialRateComesFromRecordDates) {
  const std::vector<OutlookLayer> layers{layer(kConv, 1)};
  const auto rate = [&](const std::vector<Record>& records) { return outlook(layers, 1, records, kHere).rate; };
  EXPECT_EQ(rate(at_ten_a_second(40)).from, TrialRate::assumed) << "too few";
  EXPECT_EQ(rate(at_ten_a_second(100)).from, TrialRate::network);
  EXPECT_DOUBLE_EQ(rate(at_ten_a_second(100)).per_second, 10);
  EXPECT_EQ(rate(at_ten_a_second(100, 0, "another")).from, TrialRate::machine);
  // The pause before another run, minutes later, does not count.
  std::vector<Record> twice = at_ten_a_second(100);
  for (Record r : at_ten_a_second(100)) {
    r.conditions.date[15] = '9';
    twice.push_back(std::move(r));
  }
  EXPECT_DOUBLE_EQ(rate(twice).per_second, 10);
  EXPECT_THAT(text(outlook(layers, 1, twice, kHere), "a.db"),
              testing::Contains(HasSubstr("(3000 trials at 10 a second, the rate of tuning this network; ")));
  for (Record& r : twice) r.conditions.date = "some day";
  EXPECT_EQ(rate(twice).from, TrialRate::assumed);
}

/// Two tasks with schedules that were faster in their own races, of which the accepted plan includes only the first.
struct RacedNetwork {
  std::vector<Record> records = tuned(kConv, 0.8);
  std::vector<OutlookLayer> layers{layer(kConv, 1, ScheduleSource::fallback, "taken"),
                                   layer(kOther, 2, ScheduleSource::fallback, "lost")};
  KeptPlan plan;
  OutlookFor what = kHere;
  RacedNetwork() {
    for (const Record& r : tuned(kOther, 0.7)) records.push_back(r);
    plan.date = "2026-01-02T03:04:05Z", plan.default_ratio = {0.95, 0.94, 0.96};
    plan.choices["taken"] = parse_schedule("conv2d_direct vectors=2 rows=1 tile=1 prefetch=0");
    what.accepted = &plan;
  }
  Outlook look() const { return outlook(layers, 4, records, what); }
};

TEST(Outlook, UnusedAcceptedPlanIsAvailable) {
  const RacedNetwork net;
  const Outlook o = net.look();
  EXPECT_EQ(o.available.layers, 1);
  EXPECT_NEAR(o.available.gain_ms, 4 * 0.05, 1e-9) << "of the whole network, as its race had it";
  EXPECT_EQ(o.lost.layers, 1);
  EXPECT_EQ(o.lost.gain_ms, 0);
  const std::vector<std::string> lines = text(o, "a.db");
  EXPECT_EQ(lines[1],
            "   1 layer   25.0 % of the time  would run differently under the plan accepted on 2026-01-02: --records "
            "would save about 5.0 % of the run, as measured in its race");
  EXPECT_EQ(lines[2],
            "   1 layer   50.0 % of the time  were faster on their own under other schedules, but lost in the race of "
            "whole networks");
}

TEST(Outlook, AcceptedPlanInUseLeavesNothingAvailable) {
  RacedNetwork net;
  net.what.accepted_in_use = true, net.layers[0].from = ScheduleSource::record;
  const Outlook o = net.look();
  EXPECT_EQ(o.available.layers, 0);
  EXPECT_EQ(o.chosen.layers, 1);
  EXPECT_EQ(o.lost.layers, 1);
  for (const std::string& line : text(o, "a.db")) EXPECT_THAT(line, testing::Not(HasSubstr("--records")));
  EXPECT_THAT(summary(o), testing::Not(HasSubstr("--records")));
}

TEST(Outlook, AcceptedDefaultPlanLeavesNothingAvailable) {
  RacedNetwork net;
  net.plan.choices.clear();
  const Outlook o = net.look();
  EXPECT_EQ(o.available.layers, 0);
  EXPECT_EQ(o.lost.layers, 2);
}

// The schedules that pruning keeps by default are enough for a tuned task to count as tuned.
TEST(Outlook, PruningLeavesTunedTasksTuned) {
  std::vector<Record> records = tuned(kConv, 0.8, 40);
  for (Record& r : records) r.conditions.date = "2026-03-01";
  const std::vector<OutlookLayer> layers{layer(kConv, 1)};
  ASSERT_EQ(outlook(layers, 2, records, kHere).tuned_tasks, 1);
  const std::set<std::string> gone = plan_prune(records, {}).ids;
  std::erase_if(records, [&](const Record& r) { return gone.contains(r.id()); });
  EXPECT_EQ(records.size(), static_cast<size_t>(kEnoughTried));
  const Outlook after = outlook(layers, 2, records, kHere);
  EXPECT_EQ(after.tuned_tasks, 1);
  EXPECT_EQ(after.available.layers, 1);
}

// If the layers already run the schedules of the records, there is no gain from records, only from more trials.
TEST(Outlook, RecordsInUseLeaveOnlyFurtherTrials) {
  const std::vector<Record> records = tuned(kConv, 0.8, 40);
  const std::vector<OutlookLayer> layers{layer(kConv, 1, ScheduleSource::record)};
  const Outlook o = outlook(layers, 2, records, kHere);
  EXPECT_EQ(o.chosen.layers, 1);
  EXPECT_EQ(o.available.layers + o.settled.layers + o.expected.layers + o.unknown.layers, 0);
  EXPECT_EQ(o.further.layers, 1);
  EXPECT_NEAR(o.further.gain_ms, gain_of_more(kHidden, 40, tries_in(5)), 1e-9);
  EXPECT_THAT(text(o, "a.db"),
              testing::Contains(HasSubstr("another 5 minutes of tuning are expected to save about 0.2 % of the run")));
}

/// Records count in the order of their dates, whatever their order in the file.
TEST(Outlook, LateGainPromisesMore) {
  const std::vector<OutlookLayer> layers{layer(kConv, 1, ScheduleSource::record)};
  const auto gain = [&](size_t best) {
    std::vector<Record> records = tuned(kConv, 1.2, 16);
    records[best].versus->ratio = {0.8, 0.79, 0.81};
    for (size_t i = 0; i < records.size(); ++i) records[i].conditions.date = fmt::format("2026-03-01T12:{:02}:00Z", i);
    std::ranges::reverse(records);
    return outlook(layers, 1, records, kHere).further.gain_ms;
  };
  EXPECT_NEAR(gain(7), gain_of_more(kHidden, 16, tries_in(5)), 1e-9);
  EXPECT_GT(gain(8), 0.15);
  EXPECT_LT(gain(8), 0.2);
}

TEST(Outlook, FewTrialsDoNotCountAsTuned) {
  const std::vector<Record> records = tuned(kConv, 1.1, 3);
  const std::vector<OutlookLayer> layers{layer(kConv, 1)};
  const Outlook o = outlook(layers, 2, records, kHere);
  EXPECT_EQ(o.tuned_tasks, 0);
  EXPECT_EQ(o.unknown.layers, 1);
}

}  // namespace
}  // namespace kilter::tune
