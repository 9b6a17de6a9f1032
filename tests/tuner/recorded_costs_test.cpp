// The costs of a network's layers according to records, and their confidence intervals.
#include "tune/tuner/graph_best/recorded_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace kilter::tune {
namespace {

const std::string kProblem = "conv2d n1 c32 h14 w14 k32 r1 s1 f32 +bias +relu";

std::string tile(int64_t pixels) {
  return "conv2d_direct vectors=2 rows=1 tile=" + std::to_string(pixels) + " prefetch=0";
}

/// A record with `samples` samples, measured on layer `node`: `schedule` took `ratio` of `fallback`'s time.
Record record(const std::string& schedule, double ratio, size_t samples, const std::string& node = "here",
              const std::string& fallback = tile(14)) {
  Record r;
  r.problem = kProblem, r.schedule = schedule, r.node = node;
  r.samples_ms.assign(samples, ratio);
  r.versus = Versus{{ratio, ratio, ratio}, fallback};
  r.conditions.device = "a machine", r.conditions.target = "znver4";
  return r;
}

Layer layer() {
  Layer out;
  out.node = "here", out.problem = kProblem, out.schedule = tile(14);
  return out;
}

RecordedCosts costs(const std::vector<Record>& records) { return {records, {"znver4", "a machine", {}, 1}}; }

double half_width(const std::vector<Record>& records) {
  const auto known = costs(records).find(layer(), parse_schedule(tile(7)));
  return known ? std::log(known->ratio.high / known->ratio.value) : 0;
}

TEST(RecordedCosts, NoMeasurementCountsTwice) {
  constexpr double kTwoErrors = 2 * 0.03;  // two standard errors of one sample
  EXPECT_NEAR(half_width({record(tile(7), 0.9, 4)}), kTwoErrors / 2, 1e-9);
  EXPECT_NEAR(half_width({record(tile(7), 0.9, 4, "elsewhere")}), kTwoErrors / 2, 1e-9);
  EXPECT_NEAR(half_width({record(tile(7), 0.9, 4), record(tile(7), 0.9, 5, "elsewhere")}), kTwoErrors / 3, 1e-9);
}

TEST(RecordedCosts, TheLuckiestOfManyIsNotTheBest) {
  std::vector<Record> records{record(tile(1), 0.85, 1), record(tile(2), 0.87, 8)};
  for (int64_t i = 0; i < 20; ++i) records.push_back(record(tile(20 + i), i % 2 == 0 ? 0.97 : 1.03, 1));
  const auto best = costs(records).best(layer(), 2);
  ASSERT_EQ(best.size(), 2U);
  EXPECT_EQ(best[0].schedule.text(), tile(2));
  const auto lucky = costs(records).find(layer(), parse_schedule(tile(1)));
  ASSERT_TRUE(lucky);
  EXPECT_GT(lucky->ratio.value, 0.88) << "one sample is believed less than eight";
  EXPECT_LT(best[0].ratio.value, lucky->ratio.value);
}

TEST(RecordedCosts, RatiosOverAnotherDefaultAreConverted) {
  std::vector<Record> records{record(tile(7), 0.6, 4, "here", tile(3))};
  EXPECT_FALSE(costs(records).find(layer(), parse_schedule(tile(7))));
  EXPECT_TRUE(costs(records).best(layer(), 4).empty());
  records.push_back(record(tile(14), 0.8, 4, "here", tile(3)));
  const auto known = costs(records).find(layer(), parse_schedule(tile(7)));
  ASSERT_TRUE(known);
  EXPECT_NEAR(known->ratio.value, 0.75, 1e-9);
  ASSERT_EQ(costs(records).best(layer(), 4).size(), 1U) << "the default is not among its own alternatives";
}

TEST(RecordedCosts, FailedAndUnreadableRecordsAreIgnored) {
  Record failed = record(tile(7), 1, 0);
  failed.status = Status::timeout, failed.versus.reset();
  const std::vector<Record> records{record(tile(7), 0.5, 4), failed, record("a later version's {schedule}", 0.5, 4)};
  EXPECT_TRUE(costs(records).best(layer(), 4).empty());
  EXPECT_FALSE(costs(records).find(layer(), parse_schedule(tile(7))));
}

}  // namespace
}  // namespace kilter::tune
