// What records say of further tuning.
#include "tune/tuner/outlook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kilter::tune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kConv = "conv2d n1 c64 h56 w56 k64 r3 s3 pad1 f32 +bias";
constexpr const char* kLike = "conv2d n1 c32 h28 w28 k32 r3 s3 pad1 f32 +bias";
constexpr const char* kOther = "conv2d n1 c64 h56 w56 k64 r1 s1 f32 +bias";
constexpr const char* kPool = "maxpool(f32[1,64,31,31] kernel_shape=3,3 strides=2,2)";
const Query kHere{"", "", "znver5", "a machine", 1, ""};

Record record(const std::string& problem, const std::string& schedule, double ratio) {
  Record r;
  r.problem = problem, r.layouts = "c16 -> c16", r.schedule = schedule;
  r.samples_ms = {1, 1, 1, 1};
  r.versus = Versus{{ratio, ratio - 0.01, ratio + 0.01}, "conv2d_direct vectors=2 rows=1 tile=14 prefetch=0"};
  r.conditions.target = kHere.target, r.conditions.device = kHere.device, r.conditions.threads = 1;
  return r;
}

/// `count` schedules of a problem, the first with the ratio, the others slower than the default.
std::vector<Record> tuned(const std::string& problem, double ratio, int count = kEnoughTried) {
  std::vector<Record> out;
  for (int i = 0; i < count; ++i)
    out.push_back(record(problem, "conv2d_direct vectors=2 rows=1 tile=" + std::to_string(i + 1) + " prefetch=0",
                         i == 0 ? ratio : 1.2));
  return out;
}

OutlookLayer layer(const std::string& problem, double ms, ScheduleSource from = ScheduleSource::fallback) {
  return {problem, "c16 -> c16", "conv2d_direct vectors=2 rows=1 tile=14 prefetch=0", from, ms};
}

TEST(Outlook, WithoutRecordsNothingIsKnown) {
  const std::vector<OutlookLayer> layers{layer(kConv, 1)};
  const Outlook o = outlook(layers, 2, {}, kHere);
  EXPECT_EQ(o.unknown.layers, 1);
  EXPECT_THAT(text(o, "a.db"), ElementsAre("a.db holds no record of this machine at this number of threads, so what "
                                           "tuning would bring is not known; this tells:"));
}

TEST(Outlook, RecordsOfOtherMachinesAndThreadsSayNothing) {
  std::vector<Record> records = tuned(kConv, 0.8);
  for (Record& r : records) r.conditions.threads = 2;
  const std::vector<OutlookLayer> layers{layer(kConv, 1)};
  EXPECT_EQ(outlook(layers, 2, records, kHere).records, 0);
  for (Record& r : records) r.conditions.threads = 1, r.conditions.device = "another machine";
  EXPECT_EQ(outlook(layers, 2, records, kHere).records, 0);
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
  EXPECT_EQ(o.settled.layers, 2);  // the pool has hardly any schedules: one that was tried is enough
  EXPECT_NEAR(o.settled.ms, 9, 1e-9);
  EXPECT_EQ(o.unknown.layers, 1);
  const std::vector<std::string> lines = text(o, "a.db");
  ASSERT_EQ(lines.size(), 8U);
  EXPECT_EQ(lines[0], "From 17 records of 3 tuned tasks of this machine at this number of threads, in a.db:");
  EXPECT_THAT(lines[2], HasSubstr("--records would save about 0.2 % of the run"));
  EXPECT_THAT(lines[4],
              HasSubstr("tuning is expected to save about 0.6 % of the run, as 1 tuned task of the same kinds had it"));
  // Three layers of the two tasks of which eight schedules were tried, the chosen one among them.
  EXPECT_EQ(o.further.layers, 3);
  EXPECT_NEAR(o.further.gain_ms, (1 + 2 + 4) * 0.0252, 1e-9);
  EXPECT_EQ(lines[6],
            "   3 layers   7.0 % of the time  have schedules left to try: another five minutes are expected to save "
            "about 0.2 % of the run, as the searcher's mean regret says");
  EXPECT_THAT(lines[7], HasSubstr("These are estimates"));
}

TEST(Outlook, TheMoreWasTriedTheLessIsLeft) {
  EXPECT_DOUBLE_EQ(expected_left(1), expected_left(kEnoughTried));
  EXPECT_DOUBLE_EQ(expected_left(32), 0.0093);
  EXPECT_DOUBLE_EQ(expected_left(256), 0.0011);
  EXPECT_DOUBLE_EQ(expected_left(1024), 0.0011 / 4);
  for (int64_t tried = kEnoughTried; tried < 3000; ++tried)
    EXPECT_GT(expected_left(tried), expected_left(tried + 1)) << tried;
}

// Under the records' own schedules nothing is gained by taking them; what more trials find is left.
TEST(Outlook, AfterTuningWithItsRecordsInUseMoreTrialsAreWhatIsLeft) {
  const std::vector<Record> records = tuned(kConv, 0.8, 40);
  const std::vector<OutlookLayer> layers{layer(kConv, 1, ScheduleSource::record)};
  const Outlook o = outlook(layers, 2, records, kHere);
  EXPECT_EQ(o.chosen.layers, 1);
  EXPECT_EQ(o.available.layers + o.settled.layers + o.expected.layers + o.unknown.layers, 0);
  EXPECT_EQ(o.further.layers, 1);
  EXPECT_NEAR(o.further.gain_ms, expected_left(40), 1e-9);
  EXPECT_THAT(text(o, "a.db"),
              testing::Contains(HasSubstr("another five minutes are expected to save about 0.4 % of the run")));
}

TEST(Outlook, AFewTrialsAreNoTuning) {
  const std::vector<Record> records = tuned(kConv, 1.1, 3);
  const std::vector<OutlookLayer> layers{layer(kConv, 1)};
  const Outlook o = outlook(layers, 2, records, kHere);
  EXPECT_EQ(o.tuned_tasks, 0);
  EXPECT_EQ(o.unknown.layers, 1);
}

}  // namespace
}  // namespace kilter::tune
