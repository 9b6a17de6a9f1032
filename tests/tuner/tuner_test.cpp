// Whole tuning runs of a small network.
#include "tune/tuner/tuner.h"

#include <gtest/gtest.h>

#include <set>

#include "exec/executor.h"
#include "network.h"

namespace kilter::tune {
namespace {

TuneOptions short_run(std::vector<Record>& kept) {
  TuneOptions options;
  options.seconds = 60;  // enough on a busy machine: the trials end the search
  options.trials = 150;
  options.network = "squeezenet1_1";
  options.device = "a device";
  options.program = "a test";
  options.runner = worker();
  options.keep = [&kept](std::span<const Record> records) { kept.insert(kept.end(), records.begin(), records.end()); };
  return options;
}

std::vector<Tensor> answers(const Choices& choices) {
  CompileOptions how = native();
  add_settings(choices, how);
  add_schedules(choices, how);
  kilter::Loaded loaded;
  const Graph graph = small_network();
  const std::vector<Tensor> inputs = inputs_of(graph);
  loaded.compiled = compile_graph(graph, how);
  loaded.program = std::make_shared<const Program>(loaded.compiled.plan);
  loaded.instance = std::make_unique<Instance>(loaded.program, std::make_shared<ThreadPool>(1));
  return run_plan(loaded, inputs);
}

TEST(Tuner, FindsKeepsAndRacesSchedules) {
  std::vector<Record> kept;
  std::vector<TuneProgress> shown;
  TuneOptions options = short_run(kept);
  options.progress = [&](const TuneProgress& p) { shown.push_back(p); };
  const Graph graph = small_network();
  const TuneResult result = tune(graph, inputs_of(graph), native(), options);
  EXPECT_GE(result.trials, 100);
  EXPECT_EQ(result.failures, 0);
  EXPECT_EQ(result.restarts, 0);
  // One for each trial, then one for each schedule of each race.
  EXPECT_GE(static_cast<int64_t>(kept.size()), result.trials);
  EXPECT_LE(static_cast<int64_t>(kept.size()), result.trials + 6 * static_cast<int64_t>(result.tasks.size()));
  for (const Record& r : kept) {
    check(r);
    EXPECT_EQ(r.status, Status::ok) << r.error;
    ASSERT_TRUE(r.versus.has_value());
    EXPECT_GT(r.versus->ratio.value, 0);
    EXPECT_EQ(r.conditions.device, "a device");
    EXPECT_EQ(r.conditions.threads, 1);
    EXPECT_EQ(r.network, "squeezenet1_1");
  }
  // Never slower: what is accepted was clearly faster, else the default stays.
  EXPECT_EQ(result.same_plan, result.choices.empty());
  EXPECT_LE(result.ratio.high, 1);
  double share = 0;
  for (const TunedTask& t : result.tasks) {
    share += t.share;
    EXPECT_LE(t.tried, t.size + 1) << t.problem;
    EXPECT_FALSE(t.space.empty());
  }
  EXPECT_GT(share, 0.7);
  EXPECT_LT(share, 1.05);
  ASSERT_FALSE(shown.empty());
  EXPECT_EQ(shown.back().phase, "done");
  EXPECT_EQ(shown.back().trials, result.trials);

  // The accepted schedules compute what the defaults do.
  const std::vector<Tensor> tuned = answers(result.choices), plain = answers({});
  for (int64_t i = 0; i < plain[0].elems(); ++i)
    EXPECT_NEAR(tuned[0].data<float>()[i], plain[0].data<float>()[i], 1e-4) << i;
}

TEST(Tuner, GoesOnWhereItEnded) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.trials = 60;
  const Graph graph = small_network();
  tune(graph, inputs_of(graph), native(), options);
  std::set<std::string> first;
  for (const Record& r : kept) first.insert(r.problem + r.layouts + r.schedule);
  const size_t before = kept.size();
  options.known = kept;
  std::vector<Record> more;
  options.keep = [&more](std::span<const Record> records) { more.insert(more.end(), records.begin(), records.end()); };
  tune(graph, inputs_of(graph), native(), options);
  ASSERT_FALSE(more.empty());
  // New proposals are new ones; what is measured again are contenders, a minority this early.
  size_t again = 0;
  for (const Record& r : more) again += first.contains(r.problem + r.layouts + r.schedule) ? 1 : 0;
  EXPECT_LT(again, more.size() * 2 / 3) << before;
}

TEST(Tuner, InterruptedRunsEndSoonAndKeepWhatTheyHave) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.seconds = 300, options.trials = 0;
  options.interrupted = [&] { return kept.size() >= 30; };
  const Graph graph = small_network();
  const TuneResult result = tune(graph, inputs_of(graph), native(), options);
  EXPECT_EQ(result.stopped_because, "interrupted");
  EXPECT_LT(result.seconds, 120);
  EXPECT_GE(kept.size(), 30U);
}

TEST(Tuner, EverySearcherWorks) {
  const Graph graph = small_network();
  for (const SearcherRow& row : all_searchers()) {
    std::vector<Record> kept;
    TuneOptions options = short_run(kept);
    options.trials = 30;
    options.search.searcher = row.name;
    try {
      const TuneResult result = tune(graph, inputs_of(graph), native(), options);
      EXPECT_GE(result.trials, 20) << row.name;
      EXPECT_LE(result.ratio.high, 1) << row.name;
    } catch (const Error& e) {
      // Without XGBoost those that need it say what to install.
      EXPECT_TRUE(row.name.starts_with("xgb")) << row.name << ": " << e.message();
      EXPECT_NE(e.message().find("xgboost"), std::string::npos) << e.message();
    }
  }
}

TEST(Tuner, OnlyTheTasksThatWereAskedFor) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.trials = 10;
  options.ops = {"maxpool"};
  const Graph graph = small_network();
  const TuneResult result = tune(graph, inputs_of(graph), native(), options);
  ASSERT_FALSE(result.tasks.empty());
  for (const TunedTask& t : result.tasks) EXPECT_TRUE(t.problem.starts_with("maxpool(")) << t.problem;
}

}  // namespace
}  // namespace kilter::tune
