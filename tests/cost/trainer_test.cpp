// Properties of both trainers: Kilter's own, and XGBoost if it is installed.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "../base/error_of.h"
#include "../base/scratch_folder.h"
#include "base/error.h"
#include "base/files.h"
#include "synthetic.h"
#include "tune/cost/boosted_trees.h"
#include "tune/cost/metrics.h"
#include "tune/cost/xgboost_model.h"

namespace kilter::tune {
namespace {

constexpr double kFailed = std::numeric_limits<double>::infinity();
constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

/// The XGBoost library in the test environment; null if there is none.
std::shared_ptr<const XgboostLibrary> xgboost() {
  const std::filesystem::path environment = std::string(KILTER_SOURCE_FOLDER) + "/.venv";
  for (const auto& file : xgboost_candidates(environment)) {
    if (std::filesystem::is_regular_file(file)) return XgboostLibrary::load(environment.string());
  }
  return nullptr;
}

struct Trainer {
  const char* name;
  bool needs_xgboost;
  Objective objective;
};

void PrintTo(const Trainer& trainer, std::ostream* out) { *out << trainer.name; }

std::unique_ptr<TrainableModel> make(const Trainer& trainer, const BoostOptions& options = {}) {
  if (!trainer.needs_xgboost) return std::make_unique<BoostedTrees>(options);
  return std::make_unique<XgboostModel>(xgboost(), trainer.objective, options);
}

class Trainers : public testing::TestWithParam<Trainer> {
 protected:
  void SetUp() override {
    if (GetParam().needs_xgboost && xgboost() == nullptr) GTEST_SKIP() << "no XGBoost in .venv; ./test installs it";
  }
  static std::unique_ptr<TrainableModel> fitted(const TrainingSet& set, const BoostOptions& options = {}) {
    auto model = make(GetParam(), options);
    model->fit(set);
    return model;
  }
  static bool ranks() { return GetParam().objective == Objective::rank; }
};

double held_out_correlation(const TrainableModel& model, const SyntheticOptions& options, uint64_t seed) {
  const TrainingSet set = synthetic_set(options, seed);
  return judge(model.predict(set.rows), set.costs, set.groups).spearman;
}

TEST_P(Trainers, PredictUnseenTasks) {
  const auto model = fitted(synthetic_set({}, 1));
  EXPECT_GT(held_out_correlation(*model, {}, 2), 0.9);
}

TEST_P(Trainers, LearnWithUnknownFeaturesAndFailures) {
  const SyntheticOptions hard{8, 120, 0.02, 0.15, 0.1};
  const auto model = fitted(synthetic_set(hard, 1));
  EXPECT_GT(held_out_correlation(*model, {8, 120, 0.02, 0, 0.1}, 2), 0.65);
}

TEST_P(Trainers, SameRowsSameBytes) {
  const TrainingSet set = synthetic_set({8, 120, 0.02, 0.1, 0.1}, 3);
  const std::string text = fitted(set)->trees().text();
  EXPECT_EQ(fitted(set)->trees().text(), text);
  const auto twice = make(GetParam());
  twice->fit(synthetic_set({}, 9));
  twice->fit(set);
  EXPECT_EQ(twice->trees().text(), text) << "what was learned before is forgotten";
  EXPECT_EQ(TreeModel::parse(text, "m").predict(set.rows), twice->predict(set.rows));
}

/// Trains few trees, because OpenMP threads that wait for each other on busy CPUs are very slow.
TEST_P(Trainers, ThreadsDoNotChangePredictions) {
  const TrainingSet set = synthetic_set({4, 60}, 4);
  BoostOptions options;
  options.trees = 15;
  const std::vector<double> one = fitted(set, options)->predict(set.rows);
  options.threads = 2;
  const std::vector<double> two = fitted(set, options)->predict(set.rows);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], two[i], 1e-4 * (1 + std::abs(one[i])));
}

TEST_P(Trainers, OneRow) {
  const auto model = fitted({{{"x"}, {3}}, {0.75}, {0}, {}});
  const std::vector<double> got = model->predict({{"x"}, {3, -9, kUnknown}});
  EXPECT_EQ(got[0], got[1]);
  EXPECT_EQ(got[0], got[2]);
  if (!ranks()) {
    EXPECT_NEAR(got[0], 0.75, 1e-6);
  }
}

TEST_P(Trainers, ConstantCosts) {
  TrainingSet set = synthetic_set({2, 50}, 5);
  std::fill(set.costs.begin(), set.costs.end(), -0.5);
  const std::vector<double> got = fitted(set)->predict(set.rows);
  for (const double v : got) EXPECT_NEAR(v, ranks() ? got[0] : -0.5, 1e-6);
}

TEST_P(Trainers, ConstantAndUnknownFeatures) {
  TrainingSet set{{{"constant", "unknown", "x"}, {}}, {}, {}, {}};
  for (int i = 0; i < 40; ++i) {
    set.rows.values.insert(set.rows.values.end(), {7, kUnknown, static_cast<float>(i)});
    set.costs.push_back(i < 20 ? 1 : 0);
    set.groups.push_back(0);
  }
  const auto model = fitted(set);
  const std::vector<double> got = model->predict({set.rows.features, {7, kUnknown, 3, 7, kUnknown, 33}});
  EXPECT_GT(got[0], got[1] + 0.5);
  EXPECT_EQ(model->trees().splits()[0], 0);
  EXPECT_EQ(model->trees().splits()[1], 0);
}

TEST_P(Trainers, UnknownValuesAreLearnedSeparately) {
  TrainingSet set{{{"x"}, {}}, {}, {}, {}};
  for (int i = 0; i < 60; ++i) {
    set.rows.values.push_back(i % 3 == 0 ? kUnknown : static_cast<float>(i));
    set.costs.push_back(i % 3 == 0 ? 2 : 0);
    set.groups.push_back(0);
  }
  const std::vector<double> got = fitted(set)->predict({{"x"}, {kUnknown, 10, 50}});
  EXPECT_GT(got[0], got[1] + 0.5);
  EXPECT_GT(got[0], got[2] + 0.5);
}

TEST_P(Trainers, GroupsOfOne) {
  TrainingSet set = synthetic_set({1, 60}, 6);
  for (size_t i = 0; i < set.size(); ++i) set.groups[i] = static_cast<int64_t>(i);
  const std::vector<double> got = fitted(set)->predict(set.rows);
  for (const double v : got) EXPECT_TRUE(std::isfinite(v));
  if (ranks()) {
    EXPECT_EQ(got, std::vector<double>(got.size(), got[0])) << "nothing to rank";
  } else {
    EXPECT_GT(rank_correlation(got, set.costs), 0.9);
  }
}

TEST_P(Trainers, GroupsNeedNotBeContiguous) {
  const TrainingSet set = synthetic_set({4, 60}, 7);
  std::vector<size_t> mixed;
  for (size_t i = 0; i < set.size(); ++i) mixed.push_back(i % 4 * 60 + i / 4);
  const auto model = fitted(set.take(mixed));
  const auto sorted = fitted(set);
  EXPECT_GT(held_out_correlation(*model, {}, 8), 0.85);
  if (ranks()) {
    EXPECT_EQ(model->trees().text(), sorted->trees().text());
  }
}

TEST_P(Trainers, RowsOfZeroWeightAreIgnored) {
  TrainingSet set = synthetic_set({1, 100}, 8);
  set.weights.assign(100, 1);
  TrainingSet wrong = synthetic_set({1, 100}, 8);
  for (double& cost : wrong.costs) cost = -cost;
  set.rows.values.insert(set.rows.values.end(), wrong.rows.values.begin(), wrong.rows.values.end());
  set.costs.insert(set.costs.end(), wrong.costs.begin(), wrong.costs.end());
  set.groups.insert(set.groups.end(), 100, 1);
  set.weights.insert(set.weights.end(), 100, 0);
  const auto model = fitted(set);
  EXPECT_LT(judge(model->predict(wrong.rows), wrong.costs, wrong.groups).spearman, -0.9);
}

TEST_P(Trainers, FailuresRankLast) {
  TrainingSet set{{{"x"}, {}}, {}, {}, {}};
  for (int i = 0; i < 60; ++i) {
    set.rows.values.push_back(static_cast<float>(i));
    set.costs.push_back(i < 20 ? kFailed : i < 40 ? 0.5 : 0);
    set.groups.push_back(i % 2);
  }
  const std::vector<double> got = fitted(set)->predict({{"x"}, {10, 30, 50}});
  EXPECT_GT(got[0], got[1]);
  EXPECT_GT(got[1], got[2]);
  if (!ranks()) {
    EXPECT_NEAR(got[0], 0.5 + std::log(1.5), 0.05);
  }
}

TEST_P(Trainers, FewRowsCorrectAStartModel) {
  // The start was trained elsewhere; here, exceeding the registers costs nothing and unrolling costs much.
  BoostOptions options;
  const auto elsewhere = fitted(synthetic_set({12, 120}, 1), options);
  const auto here = [](size_t tasks, size_t schedules, uint64_t seed) {
    TrainingSet set = synthetic_set({tasks, schedules}, seed);
    for (size_t i = 0; i < set.size(); ++i) set.costs[i] += 0.4 * set.rows.row(i)[2];
    return set;
  };
  const TrainingSet few = here(3, 30, 2);
  const TrainingSet test = here(8, 120, 3);
  const auto correlation = [&](const TrainableModel& model) {
    return judge(model.predict(test.rows), test.costs, test.groups).spearman;
  };
  const double before = correlation(*elsewhere);
  const double alone = correlation(*fitted(few));
  options.start = &elsewhere->trees();
  const auto adapted = fitted(few, options);
  EXPECT_GT(correlation(*adapted), before + 0.05);
  EXPECT_GT(correlation(*adapted), alone);
  EXPECT_GT(adapted->trees().parts().trees.size(), elsewhere->trees().parts().trees.size());
}

TEST_P(Trainers, StartModelOfOtherFeaturesOrObjectiveIsRefused) {
  const TrainingSet set = synthetic_set({1, 20}, 1);
  BoostOptions options;
  const TreeModel other({{"elsewhere"}, GetParam().objective, 0, {}, {}});
  options.start = &other;
  EXPECT_EQ(error_of([&] {
              fitted(set, options);
            }).find("the cost model was trained on 1 features, of which 1 is not among the 10 given: elsewhere"),
            0);
  const TreeModel turned({set.rows.features, ranks() ? Objective::cost : Objective::rank, 0, {}, {}});
  options.start = &turned;
  EXPECT_NE(error_of([&] { fitted(set, options); }).find("start from one of the same objective"), std::string::npos);
}

TEST_P(Trainers, RefuseBadRowsAndOptions) {
  const auto refused = [](const TrainingSet& set) { return error_of([&] { fitted(set); }); };
  EXPECT_EQ(refused({{{"x"}, {}}, {}, {}, {}}),
            "training set: no row with a weight above 0; there is nothing to learn from");
  EXPECT_EQ(refused({{{"x"}, {1}}, {1}, {0}, {0}}),
            "training set: no row with a weight above 0; there is nothing to learn from");
  EXPECT_EQ(refused({{{"x"}, {1, INFINITY}}, {1, 1}, {0, 0}, {}}),
            "training set: row 1, feature x: got inf; legal values are finite numbers, and NaN for an unknown one");
  EXPECT_EQ(refused({{{"x"}, {1, 2}}, {1}, {0, 0}, {}}),
            "training set: 2 rows have 1 costs; expected one for each row");
  EXPECT_EQ(refused({{{"x"}, {1}}, {std::nan("")}, {0}, {}}),
            "training set: row 0: cost nan; legal values are finite numbers, and inf for a failure");
  EXPECT_EQ(refused({{{"x"}, {1}}, {1}, {0}, {-1}}),
            "training set: row 0: weight -1; legal values are finite numbers of 0 or more");
  EXPECT_EQ(refused({{{"x", "y"}, {1}}, {1}, {0}, {}}), "training set: expected rows of 2 values, got 1 values in all");
  BoostOptions options;
  options.depth = 17;
  EXPECT_EQ(error_of([&] { fitted(synthetic_set({1, 5}, 1), options); }),
            "cost model: depth 17; legal values are 1..16");
  options = {};
  options.rate = 0;
  EXPECT_EQ(error_of([&] { fitted(synthetic_set({1, 5}, 1), options); }),
            "cost model: rate 0; legal values are above 0, up to 1");
  EXPECT_EQ(error_of([] { (void)make(GetParam())->predict({{"x"}, {1}}); }),
            "a cost model was used before it was trained");
}

INSTANTIATE_TEST_SUITE_P(All, Trainers,
                         testing::Values(Trainer{"trees", false, Objective::cost},
                                         Trainer{"xgb", true, Objective::cost},
                                         Trainer{"xgb_rank", true, Objective::rank}),
                         [](const auto& p) { return std::string(p.param.name); });

TEST(BoostedTrees, FindsTheBestSplit) {
  BoostOptions options;
  options.trees = 1;
  options.depth = 1;
  options.rate = 1;
  options.l2 = 0;
  BoostedTrees model(options);
  model.fit({{{"a", "b"}, {1, 5, 2, 1, 9, 4, 10, 2}}, {0, 0, 8, 8}, {0, 0, 0, 0}, {}});
  EXPECT_EQ(model.trees().text().substr(0, 109),
            "kilter-trees 1\nobjective cost\nnote trainer kilter\nnote rows 4\nfeatures 2 a b\nbase 4\ntrees 1\n0r5.5 "
            "=-4 =4\n"
            "end ");
}

TEST(BoostedTrees, ThreadsDoNotChangeTheModel) {
  const TrainingSet set = synthetic_set({}, 4);
  BoostOptions options;
  BoostedTrees one(options);
  one.fit(set);
  options.threads = 4;
  BoostedTrees four(options);
  four.fit(set);
  EXPECT_EQ(one.trees().text(), four.trees().text());
}

TEST(BoostedTrees, FewBinsSuffice) {
  BoostOptions options;
  options.bins = 8;
  BoostedTrees model(options);
  model.fit(synthetic_set({}, 1));
  EXPECT_GT(held_out_correlation(model, {}, 2), 0.85);
}

class Xgboost : public testing::Test {
 protected:
  void SetUp() override {
    if (xgboost() == nullptr) GTEST_SKIP() << "no XGBoost in .venv; ./test installs it";
  }
};

TEST_F(Xgboost, OurTreesPredictAsXgboostDoes) {
  const TrainingSet set = synthetic_set({8, 120, 0.02, 0.1, 0.1}, 1);
  const Matrix rows = synthetic_set({8, 120, 0.02, 0, 0.2}, 2).rows;
  for (const Objective objective : {Objective::cost, Objective::rank}) {
    XgboostModel model(xgboost(), objective);
    model.fit(set);
    EXPECT_EQ(model.predict(rows), model.predict_by_library(rows)) << name(objective);
    BoostOptions options;
    options.start = &model.trees();
    XgboostModel more(xgboost(), objective, options);
    more.fit(synthetic_set({3, 40}, 5));
    EXPECT_EQ(more.predict(rows), more.predict_by_library(rows)) << name(objective) << ", continued";
  }
}

/// Compares both trainers on tasks that neither has seen.
TEST_F(Xgboost, OurTrainerIsAboutAsGood) {
  double ours = 0;
  double theirs = 0;
  constexpr uint64_t kSets = 5;
  for (uint64_t seed = 0; seed < kSets; ++seed) {
    const SyntheticOptions options{6, 80, 0.05, 0.05, 0.05};
    const TrainingSet set = synthetic_set(options, 10 + seed);
    BoostedTrees a;
    XgboostModel b(xgboost(), Objective::cost);
    a.fit(set);
    b.fit(set);
    ours += held_out_correlation(a, options, 100 + seed) / kSets;
    theirs += held_out_correlation(b, options, 100 + seed) / kSets;
  }
  RecordProperty("ours", std::to_string(ours));
  RecordProperty("xgboost", std::to_string(theirs));
  EXPECT_GT(ours, theirs - 0.02);
  EXPECT_GT(theirs, 0.75);
}

/// Sets an environment variable for one test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

const std::string kInstall =
    "Install it with: python3 -m venv .venv && .venv/bin/python -m pip install xgboost-cpu==3.2.0; or work without it: "
    "the trainer 'trees' and all searchers except xgb and xgb-rank do not need it";

TEST(XgboostLibrary, ErrorListsTriedPaths) {
  const ScratchFolder folder;
  const std::string place = folder.path().string();
  EXPECT_EQ(
      error_of([&] { (void)XgboostLibrary::load(place); }),
      "XGBoost: the path '" + place + "' does not lead to a library (tried: " + place +
          ": no libxgboost.so). Expected libxgboost.so, a folder that contains it, or a Python environment with the "
          "package xgboost-cpu. " +
          kInstall);
  const Variable set("KILTER_XGBOOST", place + "/none.so");
  EXPECT_EQ(error_of([] {
              (void)XgboostLibrary::load();
            }).find("XGBoost: KILTER_XGBOOST '" + place + "/none.so' does not lead to a library"),
            0);
}

TEST(XgboostLibrary, ErrorListsDefaultPaths) {
  const ScratchFolder folder;
  const Variable none("KILTER_XGBOOST", "");
  const Variable active("VIRTUAL_ENV", folder.path().string());
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const std::string message = error_of([] { (void)XgboostLibrary::load(); });
  std::filesystem::current_path(here);
  if (message == "no error") GTEST_SKIP() << "the system has a libxgboost.so, or a test before this one loaded it";
  EXPECT_EQ(message,
            "XGBoost was not found (tried: KILTER_XGBOOST: not set; " + folder.path().string() +
                ": no libxgboost.so; .venv: no libxgboost.so; libxgboost.so: cannot open shared object file: No "
                "such file or directory). " +
                kInstall);
}

TEST(XgboostLibrary, RefusesInvalidLibraries) {
  const ScratchFolder folder;
  const std::string text = (folder.path() / "libxgboost.so").string();
  write_file_atomically(text, "no library");
  const std::string message = error_of([&] { (void)XgboostLibrary::load(folder.path().string()); });
  EXPECT_NE(message.find("(tried: " + text + ": "), std::string::npos) << message;
  EXPECT_EQ(
      error_of([] { (void)XgboostLibrary::load(KILTER_OLD_XGBOOST); }),
      "XGBoost: " + std::string(KILTER_OLD_XGBOOST) + " is release 1.7.6; Kilter needs 2.0 or newer. " + kInstall);
}

TEST_F(Xgboost, IsFoundByEnvironmentVariable) {
  const Variable set("KILTER_XGBOOST", std::string(KILTER_SOURCE_FOLDER) + "/.venv");
  EXPECT_EQ(XgboostLibrary::load()->path(), xgboost()->path());
  EXPECT_EQ(XgboostLibrary::load()->version(), "3.2.0");
}

/// The XGBoost release that errors recommend is the one that scripts/setup.sh installs.
TEST(XgboostLibrary, RecommendsTheReleaseThatSetupInstalls) {
  const std::string setup = read_file(std::string(KILTER_SOURCE_FOLDER) + "/scripts/setup.sh");
  EXPECT_NE(setup.find("xgboost-cpu==3.2.0"), std::string::npos);
}

}  // namespace
}  // namespace kilter::tune
