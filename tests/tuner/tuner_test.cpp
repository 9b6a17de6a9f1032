// Whole tuning runs of a small network.
#include "tune/tuner/tuner.h"

#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "exec/executor.h"
#include "network.h"
#include "tune/tuner/search_run.h"
#include "tune/tuner/tune_json.h"

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
  options.trial.timeout_ms = 5000;
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

/// What the events tell is what the result says.
void expect_whole_story(const std::vector<TuneEvent>& events, const TuneResult& result) {
  std::vector<std::string> phases;
  std::vector<int64_t> trials(result.tasks.size());
  std::vector<std::string> best;
  size_t gains = 0, races = 0;
  double last = 0;
  for (const TuneEvent& e : events) {
    EXPECT_GE(e.seconds, last);
    last = e.seconds;
    const nlohmann::json line = nlohmann::json::parse(to_json(e).dump());
    for (const char* key : {"event", "seconds", "trials"}) EXPECT_TRUE(line.contains(key)) << line;
    if (const auto* phase = std::get_if<PhaseEvent>(&e.what)) phases.push_back(phase->phase);
    if (const auto* prepared = std::get_if<PreparedEvent>(&e.what)) {
      ASSERT_EQ(prepared->tasks.size(), result.tasks.size());
      for (const auto& task : prepared->tasks) best.push_back(task.best);
    }
    if (const auto* trial = std::get_if<TrialEvent>(&e.what)) {
      ++trials.at(trial->task);
      EXPECT_EQ(trial->status, Status::ok) << trial->error;
      EXPECT_LE(trial->ratio.low, trial->ratio.value);
      EXPECT_GE(trial->all_samples, trial->samples);
    }
    if (const auto* gain = std::get_if<GainEvent>(&e.what)) {
      EXPECT_NE(best.at(gain->task), gain->schedule);
      best[gain->task] = gain->schedule;
      EXPECT_EQ(gain->ratio.low < 1, gain->schedule != result.tasks[gain->task].fallback);
      ++gains;
    }
    races += std::holds_alternative<RaceEvent>(e.what) ? 1 : 0;
  }
  EXPECT_EQ(phases, (std::vector<std::string>{"preparing", "searching", "racing"}));
  int64_t all = 0;
  for (size_t t = 0; t < trials.size(); ++t) {
    all += trials[t];
    EXPECT_GE(trials[t], result.tasks[t].trials) << result.tasks[t].problem;
  }
  EXPECT_EQ(all, result.trials + result.failures);
  EXPECT_EQ(result.trace.gains.size(), gains);
  EXPECT_EQ(result.trace.races.size(), races);
  ASSERT_EQ(result.trace.spans.size(), 3U);
  EXPECT_GE(result.trace.points.size(), 2U);
  EXPECT_EQ(result.trace.points.back().trials, result.trials);
}

TEST(Tuner, FindsKeepsAndRacesSchedules) {
  std::vector<Record> kept;
  std::vector<TuneProgress> shown;
  TuneOptions options = short_run(kept);
  options.progress = [&](const TuneProgress& p) { shown.push_back(p); };
  std::vector<TuneEvent> events;
  options.event = [&](const TuneEvent& event) { events.push_back(event); };
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
  expect_whole_story(events, result);
  ASSERT_FALSE(shown.empty());
  EXPECT_EQ(shown.back().phase, "done");
  EXPECT_EQ(shown.back().trials, result.trials);

  // The accepted schedules compute what the defaults do.
  const std::vector<Tensor> tuned = answers(result.choices), plain = answers({});
  for (int64_t i = 0; i < plain[0].elems(); ++i)
    EXPECT_NEAR(tuned[0].data<float>()[i], plain[0].data<float>()[i], 1e-4) << i;
}

TEST(Tuner, WantOfMemorySaysNothingOfAScheduleForGood) {
  EXPECT_EQ(lasting_status(FaultKind::crash), Status::crash);
  EXPECT_EQ(lasting_status(FaultKind::timeout), Status::timeout);
  EXPECT_EQ(lasting_status(FaultKind::wrong), Status::wrong);
  EXPECT_EQ(lasting_status(FaultKind::memory), std::nullopt);
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
  options.known.push_back(kept.front());
  options.known.back().schedule = "a later version's {schedule}";  // passed over
  std::vector<Record> more;
  options.keep = [&more](std::span<const Record> records) { more.insert(more.end(), records.begin(), records.end()); };
  tune(graph, inputs_of(graph), native(), options);
  ASSERT_FALSE(more.empty());
  // New proposals are new ones; what is measured again are contenders, a minority this early.
  size_t again = 0;
  for (const Record& r : more) again += first.contains(r.problem + r.layouts + r.schedule) ? 1 : 0;
  EXPECT_LT(again, more.size() * 2 / 3) << before;
}

/// Compiles the default plan with the slowest tiles there are, so that what variants have by default is faster.
CompileOptions slow_default() {
  CompileOptions options = native();
  for (const Step& step : compile_graph(small_network(), options).plan.steps) {
    if (step.schedule.starts_with("conv2d_direct"))
      options.preferred.emplace(step.name, parse_schedule("conv2d_direct vectors=1 rows=1 tile=1 prefetch=0"));
  }
  return options;
}

TEST(Tuner, ThePlanOfBeforeStaysWhereNothingBetterIsFound) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.interrupted = [] { return true; };  // nothing is found
  options.previous["conv1"].threads = 1;
  const Graph graph = small_network();
  const TuneResult result = tune(graph, inputs_of(graph), slow_default(), options);
  EXPECT_FALSE(result.same_plan);
  EXPECT_TRUE(result.kept);
  EXPECT_EQ(result.choices, options.previous);
  EXPECT_LT(result.ratio.high, 1);
  EXPECT_LT(result.tuned_ms.value, result.default_ms.value);
}

TEST(Tuner, APlanOfBeforeThatIsSlowerThanTheDefaultGoes) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.interrupted = [] { return true; };  // nothing is found
  for (const auto& [node, schedule] : slow_default().preferred) options.previous[node] = schedule;
  const Graph graph = small_network();
  const TuneResult result = tune(graph, inputs_of(graph), native(), options);
  EXPECT_TRUE(result.same_plan);
  EXPECT_FALSE(result.kept);
  EXPECT_TRUE(result.choices.empty());
}

TEST(Tuner, APlanOfBeforeThatNoLongerFitsIsPassedOver) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.interrupted = [] { return true; };  // nothing is found
  options.previous["conv1"] = parse_schedule("conv2d_winograd m=4 vectors=1 tile=1 count=1 split=0 prefetch=0");
  options.previous["conv10"].threads = 1;  // would win, were it raced
  const Graph graph = small_network();
  const TuneResult result = tune(graph, inputs_of(graph), slow_default(), options);
  EXPECT_FALSE(result.kept);
  EXPECT_TRUE(result.same_plan);
  EXPECT_TRUE(result.choices.empty());
}

TEST(Tuner, WhatIsFoundAndNotTakenIsTold) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.trials = 100;
  const Graph graph = small_network();
  tune(graph, inputs_of(graph), native(), options);
  // Records that promise half the time of a schedule that takes much longer.
  options.known.clear();
  for (Record r : kept) {
    if (!r.versus || r.versus->ratio.low < 1.3) continue;
    for (double& ms : r.samples_ms) ms /= 2 * r.versus->ratio.value;
    r.versus->ratio = {0.5, 0.49, 0.51};
    options.known.push_back(r);
  }
  ASSERT_FALSE(options.known.empty());
  options.interrupted = [] { return true; };
  const TuneResult result = tune(graph, inputs_of(graph), native(), options);
  EXPECT_TRUE(result.same_plan);
  EXPECT_TRUE(result.choices.empty());
  ASSERT_TRUE(result.rejected.has_value());
  EXPECT_GT(result.rejected->ratio.high, 1);
  EXPECT_GT(result.rejected->layers, 0);
  EXPECT_GT(result.rejected->rounds, 0);
  EXPECT_EQ(result.default_ms.value, result.rejected->default_ms.value);
  EXPECT_LT(result.default_ms.low, result.default_ms.high);
  EXPECT_EQ(result.flips, 1);
  EXPECT_NE(result.fidelity, 1);
  EXPECT_EQ(nlohmann::json::parse(to_json(result).dump())["rejected"]["layers"], result.rejected->layers);
}

TEST(Tuner, TheBudgetIsAllOfIt) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.seconds = 8, options.trials = 0, options.graph_best = true;
  const Graph graph = small_network();
  const TuneResult result = tune(graph, inputs_of(graph), native(), options);
  EXPECT_GT(result.trials, 0);
  EXPECT_LT(result.seconds, 20);  // the last batch and the last race come to an end, beside other tests
  EXPECT_FALSE(result.graph.has_value());
  EXPECT_TRUE(result.graph_left_out.starts_with("it needs 3 s, and ")) << result.graph_left_out;
  EXPECT_TRUE(result.graph_left_out.ends_with(" s of the budget were left; of 20 s and more some are held back for it"))
      << result.graph_left_out;
}

TEST(Tuner, TheGraphTunerSaysWhyItHasNoTurn) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.trials = 5, options.graph_best = true, options.ops = {"conv2d"};
  const Graph graph = small_network();
  EXPECT_EQ(tune(graph, inputs_of(graph), native(), options).graph_left_out,
            "it chooses for all layers, and --ops names some");
  options.ops.clear();
  options.interrupted = [] { return true; };
  EXPECT_EQ(tune(graph, inputs_of(graph), native(), options).graph_left_out, "the run was interrupted");
}

TEST(Tuner, OperatorsThatTheNetworkHasNotAreAnError) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.ops = {"conv2d", "lstm"};
  const Graph graph = small_network();
  try {
    tune(graph, inputs_of(graph), native(), options);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_TRUE(e.message().starts_with("--ops lstm: no task of this network is of this kind; legal are conv2d, "))
        << e.message();
  }
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

TEST(Tuner, EndsWhenLittleIsExpectedToBeLeft) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.trials = 0, options.until = 0.9;
  const Graph graph = small_network();
  const TuneResult result = tune(graph, inputs_of(graph), native(), options);
  EXPECT_TRUE(result.stopped_because.starts_with("no more than ")) << result.stopped_because;
  EXPECT_TRUE(result.stopped_because.ends_with(" % is expected to be left")) << result.stopped_because;
  EXPECT_LE(result.trace.points.back().remaining, 0.1);
}

TEST(Tuner, EndsAfterTrialsWithoutAGain) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.trials = 0, options.early_stopping = 40;
  const Graph graph = small_network();
  const TuneResult result = tune(graph, inputs_of(graph), native(), options);
  int64_t without = 0;
  EXPECT_EQ(std::sscanf(result.stopped_because.c_str(), "no gain in %" SCNd64 " trials", &without), 1)
      << result.stopped_because;
  EXPECT_GE(without, 40);
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

TEST(Tuner, TrialsAreTakenAsAskedFor) {
  EXPECT_EQ(automatic_rounds(0.4), 6);
  EXPECT_EQ(automatic_rounds(12.5), 4);
  EXPECT_EQ(automatic_rounds(400), 2);
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.trials = 20;
  options.trial.repeat = 3, options.trial.number = 2, options.trial.min_repeat_ms = 0, options.trial.n_parallel = 1;
  int64_t trials = 0;
  options.event = [&](const TuneEvent& event) {
    const auto* trial = std::get_if<TrialEvent>(&event.what);
    if (trial == nullptr) return;
    ++trials;
    // A round in which the core was shared, or the run held up, gives no pair.
    EXPECT_LE(trial->samples, 3) << trial->schedule;
    EXPECT_GE(trial->samples, 1) << trial->schedule;
  };
  const Graph graph = small_network();
  tune(graph, inputs_of(graph), native(), options);
  EXPECT_GE(trials, 20);
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
