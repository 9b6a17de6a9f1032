#include "tune/tuner/search/cost_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "../base/error_of.h"
#include "tune/cost/table.h"
#include "tune/space/features.h"
#include "tune/tuner/graph_best/recorded_costs.h"
#include "tune/tuner/search/learned.h"
#include "tune/tuner/tasks/task_space.h"

namespace kilter::tune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

const std::string kProblem = "conv2d n1 c32 h14 w14 k32 r1 s1 f32 +bias +relu";

Schedule tile(int64_t pixels) {
  return parse_schedule("conv2d_direct vectors=2 rows=1 tile=" + std::to_string(pixels) + " prefetch=0");
}

Record record(int64_t pixels, double ratio) {
  Record r;
  r.problem = kProblem;
  r.schedule = tile(pixels).text();
  r.samples_ms = {1};
  r.versus = Versus{{ratio, ratio, ratio}, tile(14).text()};
  r.conditions.device = "a machine";
  r.conditions.target = "znver4";
  return r;
}

TEST(TaskSpace, IsThatOfTheProblem) {
  const Target target = parse_target("znver4");
  const TaskSpace task(kProblem, target);
  EXPECT_TRUE(task.space->find(tile(7)).has_value());
  EXPECT_THAT(error_of([&] { (void)TaskSpace("conv2d of something", target); }), HasSubstr("conv2d of something"));
}

TEST(CostRows, TablesAndRecordsGiveTheRowsOfTheirSchedules) {
  const CostTable table{
      kProblem, "znver4", 1, 1.5, "another machine; kilter 0.1.0; today", {{tile(7), 0.5, 30}, {tile(5), INFINITY, 1}}};
  CostRows rows;
  rows.add(table, "t");
  rows.add(std::vector<Record>{record(7, 0.25)});
  EXPECT_EQ(rows.rows(), 3);
  const Table read = parse_table(rows.text(), "rows");
  ASSERT_EQ(read.set.size(), 3);
  EXPECT_THAT(read.tasks, ElementsAre(kProblem));
  EXPECT_THAT(read.devices, ElementsAre("another machine", "a machine"));
  EXPECT_NEAR(read.set.costs[0], std::log(0.5), 1e-5);
  EXPECT_EQ(read.set.costs[1], INFINITY);
  EXPECT_NEAR(read.set.costs[2], std::log(0.25), 1e-5);
  const TaskSpace task(kProblem, parse_target("znver4"));
  const std::vector<float> expected = Featurizer(*task.space).row(*task.space->find(tile(7)));
  for (const size_t row : {0, 2}) {
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_FLOAT_EQ(read.set.rows.row(row)[i], expected[i]) << all_features()[i].name;
  }
}

TEST(CostRows, SchedulesOfAnotherSyntaxAreLeftOut) {
  Record later = record(7, 1);
  later.schedule = "a later version's {schedule}";
  CostRows rows;
  rows.add(std::vector<Record>{later});
  EXPECT_EQ(rows.rows(), 0);
  EXPECT_THAT(rows.left_out(), ElementsAre(Pair("with a schedule that this version does not know", 1)));
  EXPECT_EQ(error_of([&] { RecordedCosts(std::vector{later}, {"znver4", "a machine", {}, 0}); }), "no error");
}

TEST(CostRows, UselessRecordsAreCounted) {
  Record imported = record(7, 1), bare = record(7, 1), foreign = record(7, 1), unknown = record(7, 1),
         failed = record(6, 1), other = record(7, 1);
  imported.source = "tvm v0.2";
  bare.versus.reset();
  foreign.conditions.target.clear();
  unknown.problem = "conv9d n1";
  failed.status = Status::crash, failed.error = "signal 11", failed.samples_ms.clear(), failed.versus.reset();
  other.schedule = "conv2d_direct vectors=2 rows=1 tile=999 prefetch=0";
  CostRows rows;
  rows.add(std::vector<Record>{imported, bare, foreign, unknown, failed, other});
  EXPECT_EQ(rows.rows(), 1) << "a failure is a lesson";
  EXPECT_THAT(
      rows.left_out(),
      ElementsAre(Pair("imported from another system", 1), Pair("not measured against the default", 1),
                  Pair("with a problem or target that this version does not know", 1),
                  Pair("with a schedule that this version does not know", 1), Pair("with an unknown target", 1)));
}

TEST(CostRows, LessonsAreGroupedByTask) {
  Record other = record(7, 2), failed = record(6, 1);
  other.problem = "conv2d n1 c32 h7 w7 k32 r1 s1 f32 +bias +relu";
  failed.status = Status::crash, failed.versus.reset();
  const EarlierTrials taught = lessons_of(std::vector<Record>{other, record(7, 0.25), failed, record(5, 0.5)}, 3);
  EXPECT_THAT(taught.groups, ElementsAre(3, 3, 4)) << "numbered in the order of their problem lines, a failure is none";
  EXPECT_THAT(taught.log2_costs, ElementsAre(testing::DoubleEq(-2), testing::DoubleEq(-1), testing::DoubleEq(1)));
  const TaskSpace task(kProblem, parse_target("znver4"));
  EXPECT_THAT(taught.rows.row(1), testing::ElementsAreArray(Featurizer(*task.space).row(*task.space->find(tile(5)))));
}

TEST(CostRows, LessonsPerTaskAreLimited) {
  const std::vector<Record> many(kMostLessons + 5, record(7, 0.5));
  EXPECT_EQ(lessons_of(many, 0).count(), kMostLessons);
}

TEST(CostRows, TablesOfOtherTemplatesAreRefused) {
  CostRows rows;
  EXPECT_EQ(error_of([&] { rows.add({kProblem, "znver4", 1, 1.5, "m", {{tile(999), 1, 1}}}, "t.jsonl"); }),
            "t.jsonl: 'conv2d_direct vectors=2 rows=1 tile=999 prefetch=0' is not in the space of '" + kProblem +
                "' on znver4; measure the table again with `kilter searchers --measure`");
}

TEST(ShippedModel, HasCurrentFeaturesAndRanksAKnownTask) {
  const std::string problem = "conv2d n1 c64 h56 w56 k256 r1 s1 f32 +bias +add+relu";
  const TaskSpace task(problem, parse_target("znver5"));
  const Featurizer features(*task.space);
  FeatureRows rows{features.width(), {}};
  rows.append(features.row(*task.space->find(parse_schedule("conv2d_direct vectors=4 rows=1 tile=3 prefetch=0"))));
  rows.append(features.row(*task.space->find(parse_schedule("conv2d_direct vectors=2 rows=1 tile=14 prefetch=0"))));
  const std::vector<double> cost = CostPoints(shipped_model()).predict(rows);
  EXPECT_LT(cost[0], cost[1]) << "its table has them at 0.73 and above 1";
}

TEST(LoadPoints, RefusesModelsThatDoNotPredictCosts) {
  const std::string file = testing::TempDir() + "/kilter_load_points.trees";
  TreeModel::Parts parts = shipped_model().parts();
  parts.objective = Objective::rank;
  TreeModel(parts).save(file);
  EXPECT_EQ(error_of([&] { load_points(file); }),
            file +
                ": this cost model's objective is rank; expected cost, as an order of schedules says nothing about "
                "their costs; train one with --trainer trees or xgb");
  parts.objective = Objective::cost, parts.features.front() = "weather";
  TreeModel(parts).save(file);
  EXPECT_EQ(error_of([&] { load_points(file); }),
            file +
                ": this cost model needs the feature 'weather', which schedules do not have; train one on rows that "
                "`kilter cost-model rows` of this version has written");
}

TEST(LoadPoints, FilePredictsAsTheSavedModel) {
  const std::string file = testing::TempDir() + "/kilter_load_points.trees";
  shipped_model().save(file);
  const TaskSpace task("conv2d n1 c64 h56 w56 k256 r1 s1 f32 +bias +add+relu", parse_target("znver5"));
  const Featurizer features(*task.space);
  FeatureRows rows{features.width(), {}};
  rows.append(features.row(*task.space->default_point()));
  EXPECT_EQ(load_points("none"), nullptr);
  EXPECT_EQ(load_points("shipped")->predict(rows), load_points(file)->predict(rows));
}

}  // namespace
}  // namespace kilter::tune
