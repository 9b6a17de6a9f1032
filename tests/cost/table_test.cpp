#include "tune/cost/table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "../base/error_of.h"
#include "../base/scratch_folder.h"
#include "base/error.h"
#include "base/files.h"
#include "synthetic.h"
#include "tune/cost/boosted_trees.h"

namespace kilter::tune {
namespace {

constexpr double kFailed = std::numeric_limits<double>::infinity();

const std::string kHeader = R"({"format": "kilter-cost-table-1", "features": ["a", "b"]})"
                            "\n";

std::string error_in(const std::string& rows) {
  return error_of([&] { (void)parse_table(rows, "t.jsonl"); });
}

TEST(Table, ReadsRows) {
  const Table table = parse_table(kHeader + R"({"task": "t1", "device": "d1", "x": [1, null], "cost": -0.5}

{"task": "t2", "device": "d1", "x": [3, 4], "cost": null, "weight": 0.25}
{"task": "t1", "device": "d2", "x": [5, 6], "ms": 2, "default_ms": 4}
{"task": "t1", "device": "d1", "x": [7, 8], "ms": null, "default_ms": 4})",
                                  "t");
  EXPECT_EQ(table.set.rows.features, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(std::isnan(table.set.rows.row(0)[1]));
  EXPECT_EQ(table.set.rows.row(2)[1], 6);
  EXPECT_EQ(table.set.costs, (std::vector<double>{-0.5, kFailed, std::log(0.5), kFailed}));
  EXPECT_EQ(table.set.weights, (std::vector<double>{1, 0.25, 1, 1}));
  EXPECT_EQ(table.tasks, (std::vector<std::string>{"t1", "t2"}));
  EXPECT_EQ(table.devices, (std::vector<std::string>{"d1", "d2"}));
  EXPECT_EQ(table.set.groups, (std::vector<int64_t>{0, 1, 2, 0})) << "a task on two devices is two groups";
}

TEST(Table, RefusesDamagedRows) {
  EXPECT_EQ(error_in(""), "t.jsonl: empty; expected a line {\"format\": \"kilter-cost-table-1\", ...} and rows");
  EXPECT_EQ(error_in(kHeader), "t.jsonl: no rows; there is nothing to learn or to judge");
  EXPECT_EQ(error_in("{\"format\": 7}"), "t.jsonl: line 1: expected \"format\": \"kilter-cost-table-1\", got 7");
  EXPECT_EQ(error_in(kHeader + "{\"task\": \"t\", \"x\""),
            "t.jsonl: line 2: expected a JSON object, got {\"task\": \"t\", \"x\"");
  EXPECT_EQ(error_in(kHeader + "[1]"), "t.jsonl: line 2: expected a JSON object, got [1]");
  EXPECT_EQ(error_in(kHeader + R"({"x": [1, 2], "cost": 1})"),
            "t.jsonl: line 2: \"task\": expected a string, got null");
  EXPECT_EQ(error_in(kHeader + R"({"task": "t", "x": [1], "cost": 1})"),
            "t.jsonl: line 2: \"x\": expected a list of 2 numbers, got 1");
  EXPECT_EQ(error_in(kHeader + R"({"task": "t", "x": 3, "cost": 1})"),
            "t.jsonl: line 2: \"x\": expected a list of 2 numbers, got number");
  EXPECT_EQ(error_in(kHeader + R"({"task": "t", "x": [1, "2"], "cost": 1})"),
            "t.jsonl: line 2: \"x\": b: expected a number or null, got \"2\"");
  EXPECT_EQ(error_in(kHeader + R"({"task": "t", "x": [1, 1e40], "cost": 1})"),
            "t.jsonl: line 2: \"x\": b: 1e+40 is beyond the range of a float");
  EXPECT_EQ(error_in(kHeader + R"({"task": "t", "x": [1, 2]})"),
            "t.jsonl: line 2: expected either \"cost\", or \"ms\" and \"default_ms\"");
  EXPECT_EQ(error_in(kHeader + R"({"task": "t", "x": [1, 2], "ms": 3})"),
            "t.jsonl: line 2: \"default_ms\": expected the time of the task's default, above 0, got 0");
  EXPECT_EQ(error_in(kHeader + R"({"task": "t", "x": [1, 2], "ms": -3, "default_ms": 1})"),
            "t.jsonl: line 2: \"ms\": expected a time above 0, got -3");
  EXPECT_EQ(error_in(kHeader + R"({"task": "t", "x": [1, 2], "cost": 1, "weight": -1})"),
            "t.jsonl: line 2: \"weight\": expected 0 or more, got -1");
  EXPECT_EQ(error_in(R"({"format": "kilter-cost-table-1", "features": ["a", "a"]})"),
            "t.jsonl: line 1: feature a appears twice");
  EXPECT_EQ(error_in(R"({"format": "kilter-cost-table-1", "features": ["a b"]})"),
            "t.jsonl: line 1: feature name 'a b'; names have one or more characters, none of them a blank or a control "
            "character");
  EXPECT_EQ(error_in(R"({"format": "kilter-cost-table-1", "features": [7]})"),
            "t.jsonl: line 1: \"features\": expected names, got 7");
  EXPECT_EQ(error_in(R"({"format": "kilter-cost-table-1"})"),
            "t.jsonl: line 1: no \"features\": expected a list of names");
}

TEST(Table, SeveralFilesOfTheSameFeatures) {
  const ScratchFolder folder;
  const auto a = folder.path() / "a.jsonl";
  const auto b = folder.path() / "b.jsonl";
  const auto other = folder.path() / "other.jsonl";
  write_file_atomically(a, kHeader + R"({"task": "t1", "x": [1, 2], "cost": 1})");
  write_file_atomically(b, kHeader + R"({"task": "t1", "x": [3, 4], "cost": 2})");
  write_file_atomically(other, R"({"format": "kilter-cost-table-1", "features": ["a"]})");
  const Table table = read_table({a, b});
  EXPECT_EQ(table.set.size(), 2);
  EXPECT_EQ(table.tasks.size(), 1);
  EXPECT_EQ(
      error_of([&] { (void)read_table({a, other}); }),
      other.string() + ": line 1: expected the 2 features of the first file, got 1; use tables of the same version");
  EXPECT_NE(error_of([&] { (void)read_table({folder.path() / "none"}); }).find("none"), std::string::npos);
}

Table synthetic_table() {
  Table table;
  table.set = synthetic_set({8, 60}, 1);
  table.tasks = {"0", "1", "2", "3", "4", "5", "6", "7"};
  table.devices = {"a", "b", "c"};
  for (const int64_t group : table.set.groups) {
    table.task_of.push_back(static_cast<size_t>(group));
    table.device_of.push_back(static_cast<size_t>(group) % 3);
  }
  return table;
}

TEST(HeldOut, TasksAndDevicesAreNotSplitAcrossFolds) {
  const Table table = synthetic_table();
  for (const HoldOut by : {HoldOut::task, HoldOut::device}) {
    const std::vector<size_t> folds = folds_of(table, by, 3, 1);
    std::vector<std::vector<bool>> in(by == HoldOut::task ? 8 : 3, std::vector<bool>(3));
    for (size_t i = 0; i < folds.size(); ++i)
      in[by == HoldOut::task ? table.task_of[i] : table.device_of[i]][folds[i]] = true;
    for (const auto& fold : in) EXPECT_EQ(std::count(fold.begin(), fold.end(), true), 1);
    for (size_t f = 0; f < 3; ++f) EXPECT_NE(std::count(folds.begin(), folds.end(), f), 0);
    EXPECT_EQ(folds_of(table, by, 3, 1), folds);
  }
  EXPECT_NE(folds_of(table, HoldOut::task, 4, 1), folds_of(table, HoldOut::task, 4, 2));
  EXPECT_EQ(error_of([&] { (void)folds_of(table, HoldOut::device, 4, 1); }),
            "held out by devices: 4 folds need at least as many devices; the table has 3");
  EXPECT_EQ(error_of([&] { (void)folds_of(table, HoldOut::task, 1, 1); }),
            "held out by tasks: 1 folds; expected 2 or more");
}

/// A model that predicts 1 for its training rows and 0 for all others.
class Memory : public TrainableModel {
 public:
  void fit(const TrainingSet& set) override { known_ = set.rows.values; }
  const TreeModel& trees() const override { throw Error(ErrorKind::internal, "none"); }
  std::vector<double> predict(const Matrix& rows) const override {
    std::vector<double> out;
    for (size_t i = 0; i < rows.rows(); ++i) {
      bool seen = false;
      for (size_t at = 0; at < known_.size() && !seen; at += rows.columns()) {
        seen = std::equal(rows.row(i).begin(), rows.row(i).end(), known_.begin() + static_cast<long>(at));
      }
      out.push_back(seen ? 1 : 0);
    }
    return out;
  }

 private:
  std::vector<float> known_;
};

TEST(HeldOut, NoRowIsPredictedByAModelThatSawItsTask) {
  Table table = synthetic_table();
  // Gives every row a unique number.
  for (size_t i = 0; i < table.set.size(); ++i) table.set.rows.values[i * 10 + 9] = static_cast<float>(i);
  const std::vector<double> seen =
      predict_held_out(table, folds_of(table, HoldOut::task, 4, 1), [] { return std::make_unique<Memory>(); });
  EXPECT_EQ(seen, std::vector<double>(table.set.size(), 0));
  const std::vector<double> predicted =
      predict_held_out(table, folds_of(table, HoldOut::device, 3, 1), [] { return std::make_unique<BoostedTrees>(); });
  for (const Metrics& m : judge_by_device(table, predicted)) {
    EXPECT_GT(m.spearman, 0.8);
    EXPECT_GE(m.groups, 2);
  }
}

TEST(Metrics, KnownFigures) {
  const std::vector<double> costs = {0, std::log(2), std::log(4), kFailed};
  const std::vector<int64_t> one(4, 0);
  Metrics m = judge(std::vector<double>{1, 2, 3, 4}, costs, one);
  EXPECT_EQ(m.judged, 1);
  EXPECT_DOUBLE_EQ(m.pairwise, 1);
  EXPECT_DOUBLE_EQ(m.spearman, 1);
  EXPECT_DOUBLE_EQ(m.top1_regret, 0);
  EXPECT_EQ(m.failed_first, 0);
  m = judge(std::vector<double>{4, 3, 2, 1}, costs, one);
  EXPECT_DOUBLE_EQ(m.pairwise, 0);
  EXPECT_DOUBLE_EQ(m.spearman, -1);
  EXPECT_NEAR(m.top1_regret, 3, 1e-12) << "the failure is passed over";
  EXPECT_EQ(m.failed_first, 1);
  m = judge(std::vector<double>{2, 1, 3, 4}, costs, one);
  EXPECT_DOUBLE_EQ(m.pairwise, 5.0 / 6);
  EXPECT_DOUBLE_EQ(m.spearman, 0.8);
  EXPECT_NEAR(m.top1_regret, 1, 1e-12);
}

TEST(Metrics, EqualPredictionsScoreAsChance) {
  const std::vector<double> costs = {0, 1, 2};
  const Metrics m = judge(std::vector<double>{5, 5, 5}, costs, std::vector<int64_t>(3, 0));
  EXPECT_DOUBLE_EQ(m.pairwise, 0.5);
  EXPECT_DOUBLE_EQ(m.spearman, 0);
  EXPECT_NEAR(m.top1_regret, std::exp(2) - 1, 1e-12);
}

TEST(Metrics, GroupsWeighEquallyAndSingleRowsAreSkipped) {
  // Two groups of two, one right and one wrong; one group of a single row; one whose rows are equal.
  const std::vector<double> costs = {0, 1, 0, 1, 7, 3, 3};
  const std::vector<double> predicted = {0, 1, 1, 0, 0, 1, 2};
  const Metrics m = judge(predicted, costs, std::vector<int64_t>{1, 1, 2, 2, 3, 4, 4});
  EXPECT_EQ(m.rows, 7);
  EXPECT_EQ(m.groups, 4);
  EXPECT_EQ(m.judged, 2);
  EXPECT_DOUBLE_EQ(m.pairwise, 0.5);
  EXPECT_DOUBLE_EQ(m.spearman, 0);
  const Metrics none = judge(std::vector<double>{1}, std::vector<double>{1}, std::vector<int64_t>{1});
  EXPECT_EQ(none.judged, 0);
  EXPECT_TRUE(std::isnan(none.pairwise));
}

TEST(Metrics, TiedRanksAreShared) {
  EXPECT_NEAR(rank_correlation(std::vector<double>{1, 2, 2, 3}, std::vector<double>{1, 2, 3, 4}), 0.9486832980505138,
              1e-12);
  EXPECT_EQ(rank_correlation(std::vector<double>{1, 1}, std::vector<double>{1, 2}), 0);
}

}  // namespace
}  // namespace kilter::tune
