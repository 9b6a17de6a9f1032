// Whole tuning runs of a small network.
#include "tune/tuner/tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "exec/executor.h"
#include "short_run.h"
#include "tune/tuner/plans/apply.h"
#include "tune/tuner/search/search_run.h"
#include "tune/tuner/tune_json.h"

namespace kilter::tune {
namespace {

std::vector<Tensor> answers(const Choices& choices) {
  CompileOptions how = native();
  how.choices = choices;
  kilter::Loaded loaded;
  const Graph graph = small_network();
  const std::vector<Tensor> inputs = inputs_of(graph);
  loaded.compiled = compile_graph(graph, how);
  loaded.program = std::make_shared<const Program>(loaded.compiled.plan);
  loaded.instance = std::make_unique<Instance>(loaded.program, std::make_shared<ThreadPool>(1));
  return run_plan(loaded, inputs);
}

/// Checks that the events agree with the result.
void expect_whole_story(const std::vector<TuneEvent>& events, const TuneResult& result) {
  std::vector<std::string> phases;
  std::map<int64_t, const TunedTask*> tasks;  // by the number that events give
  for (const TunedTask& t : result.tasks) EXPECT_TRUE(tasks.emplace(t.number, &t).second) << t.number;
  std::map<int64_t, int64_t> trials;
  std::map<int64_t, std::string> best;
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
      for (const auto& task : prepared->tasks) best[task.task] = task.best;
    }
    if (const auto* trial = std::get_if<TrialEvent>(&e.what)) {
      ASSERT_TRUE(tasks.contains(trial->task)) << trial->task;
      EXPECT_TRUE(std::ranges::count(tasks.at(trial->task)->nodes, trial->node)) << trial->node;
      ++trials[trial->task];
      EXPECT_EQ(trial->status, Status::ok) << trial->error;
      EXPECT_LE(trial->ratio.low, trial->ratio.value);
      EXPECT_GE(trial->all_samples, trial->samples);
    }
    if (const auto* gain = std::get_if<GainEvent>(&e.what)) {
      EXPECT_NE(best.at(gain->task), gain->schedule);
      best[gain->task] = gain->schedule;
      EXPECT_EQ(gain->ratio.low < 1, gain->schedule != tasks.at(gain->task)->fallback);
      ++gains;
    }
    races += std::holds_alternative<RaceEvent>(e.what) ? 1 : 0;
  }
  EXPECT_EQ(phases, (std::vector<std::string>{"preparing", "searching", "racing"}));
  int64_t all = 0;
  for (const auto& [number, task] : tasks) {
    all += trials[number];
    EXPECT_GE(trials[number], task->trials) << task->problem;
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
  // One record for each trial, then one for each schedule of each race.
  EXPECT_GE(static_cast<int64_t>(kept.size()), result.trials);
  EXPECT_LE(static_cast<int64_t>(kept.size()), result.trials + 9 * static_cast<int64_t>(result.tasks.size()));
  for (const Record& r : kept) {
    check(r);
    EXPECT_EQ(r.status, Status::ok) << r.error;
    ASSERT_TRUE(r.versus.has_value());
    EXPECT_GT(r.versus->ratio.value, 0);
    EXPECT_EQ(r.conditions.device, "a device");
    EXPECT_EQ(r.conditions.threads, 1);
    EXPECT_EQ(r.network, "squeezenet1_1");
  }
  // The accepted plan is never slower: unless it was clearly faster, the default is kept.
  EXPECT_EQ(result.same_plan, result.choices.empty());
  EXPECT_LE(result.ratio.high, 1);
  for (const TunedTask& t : result.tasks) {
    EXPECT_LE(t.tried, t.size + 1) << t.problem;
    EXPECT_FALSE(t.space.empty());
  }
  expect_whole_story(events, result);
  ASSERT_FALSE(shown.empty());
  EXPECT_EQ(shown.back().phase, "done");
  EXPECT_EQ(shown.back().trials, result.trials);

  // The accepted schedules give the same results as the defaults.
  const std::vector<Tensor> tuned = answers(result.choices), plain = answers({});
  for (int64_t i = 0; i < plain[0].elems(); ++i)
    EXPECT_NEAR(tuned[0].data<float>()[i], plain[0].data<float>()[i], 1e-4) << i;
}

TEST(Tuner, EveryPhaseIsShown) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.trials = 2;
  std::vector<std::string> phases;
  options.progress = [&](const TuneProgress& p) {
    if (phases.empty() || phases.back() != p.phase) phases.push_back(p.phase);
  };
  const Graph graph = small_network();
  tune(graph, inputs_of(graph), native(), options);
  EXPECT_EQ(phases, (std::vector<std::string>{"preparing", "searching", "racing", "done"}));
}

TEST(Tuner, BeatenBoundsAreMeasuredAgain) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.trials = 2;
  double bound_ms = 1e6;
  int asked = 0;
  options.bound = [&](const Plan&, const std::vector<size_t>& steps) {
    return bound_ms * static_cast<double>(steps.size());
  };
  options.better_bound = [&] {
    ++asked;
    if (asked == 2) bound_ms = 1e-9;
  };
  const Graph graph = small_network();
  const TuneResult result = tune(graph, inputs_of(graph), native(), options);
  EXPECT_EQ(asked, 2);
  EXPECT_LT(result.before.share_of_bound, 1);
  bound_ms = 1e6, asked = 3;
  tune(graph, inputs_of(graph), native(), options);
  EXPECT_EQ(asked, 6) << "it is given up in the end";
}

TEST(Tuner, MemoryFaultsAreNotPermanent) {
  EXPECT_EQ(lasting_status(FaultKind::crash), Status::crash);
  EXPECT_EQ(lasting_status(FaultKind::timeout), Status::timeout);
  EXPECT_EQ(lasting_status(FaultKind::wrong), Status::wrong);
  EXPECT_EQ(lasting_status(FaultKind::memory), std::nullopt);
}

TEST(Tuner, ResumesWhereItEnded) {
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
  options.known.back().schedule = "a later version's {schedule}";  // skipped
  std::vector<Record> more;
  options.keep = [&more](std::span<const Record> records) { more.insert(more.end(), records.begin(), records.end()); };
  const TuneResult result = tune(graph, inputs_of(graph), native(), options);
  ASSERT_FALSE(more.empty());
  more.resize(std::min(more.size(), static_cast<size_t>(result.trials)));  // the race's records come after them
  // New proposals differ from earlier ones. Only contenders are measured again, and they are a minority this early.
  size_t again = 0;
  for (const Record& r : more) again += first.contains(r.problem + r.layouts + r.schedule) ? 1 : 0;
  EXPECT_LT(again, more.size() * 2 / 3) << before;
}

/// Returns the records as if they had been measured with another number of threads and an earlier code generator.
std::vector<Record> made_otherwise(std::vector<Record> records) {
  for (Record& r : records) r.conditions.threads = 3, r.conditions.codegen = "an earlier one";
  return records;
}

TEST(Tuner, RecordsOfOtherConditionsAreTriedFirst) {
  const Graph graph = small_network();
  const CompileOptions compile = slow_default();
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.seconds = 30, options.trials = 60;  // short races: the schedules found are much faster than the default
  ASSERT_FALSE(tune(graph, inputs_of(graph), compile, options).same_plan);
  options.known = made_otherwise(kept);
  const Choices best = history_best_choices(graph, compile, options.known, {"", options.device, options.threads});
  ASSERT_FALSE(best.empty());

  options.trials = 40;
  std::set<std::string> began, otherwise;  // tasks that began with the recorded schedule; others
  const auto of_all = [&] { return !began.empty() && std::ranges::includes(began, otherwise); };
  for (int attempt = 0; attempt < 5 && !of_all(); ++attempt) {  // disturbed trials are retried later
    std::map<std::string, std::string> first;                   // each task's first schedule
    options.keep = [&](std::span<const Record> records) {
      for (const Record& r : records) first.emplace(r.problem + r.layouts, r.schedule);
    };
    const TuneResult result = tune(graph, inputs_of(graph), compile, options);
    EXPECT_EQ(result.earlier.all, static_cast<int64_t>(kept.size()));
    EXPECT_EQ(result.earlier.here, 0);
    EXPECT_GT(result.earlier.advised, 0);
    for (const TunedTask& t : result.tasks) {
      const auto tried = first.find(t.problem + t.layouts);
      const auto recorded = best.find(t.nodes.front());
      if (tried == first.end() || recorded == best.end()) continue;
      (tried->second == recorded->second.schedule->text() ? began : otherwise).insert(t.problem + t.layouts);
    }
  }
  EXPECT_TRUE(of_all()) << testing::PrintToString(began) << " of " << testing::PrintToString(otherwise);
  options.keep = nullptr;

  options.interrupted = [] { return true; };  // nothing is found
  const TuneResult raced = tune(graph, inputs_of(graph), compile, options);
  EXPECT_EQ(raced.trials, 0);
  EXPECT_TRUE(raced.kept) << "what other commands run with these records must not get lost";
  EXPECT_EQ(raced.choices, best);
  EXPECT_LT(raced.ratio.high, 1);
}

// One of several attempts must succeed: other work on the machine may slow runs that count for the network's time but
// not for the tasks'.
TEST(Tuner, TasksCoverMostOfTheNetworkTime) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.interrupted = [] { return true; };  // nothing is tried
  const Graph graph = small_network();
  double share = 0;
  for (int attempt = 0; attempt < 5 && (share <= 0.7 || share >= 1.05); ++attempt) {
    share = 0;
    for (const TunedTask& t : tune(graph, inputs_of(graph), native(), options).tasks) share += t.share;
  }
  EXPECT_GT(share, 0.7);
  EXPECT_LT(share, 1.05);
}

TEST(Tuner, PreviousPlanIsKeptIfNothingIsFaster) {
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

TEST(Tuner, SlowerPreviousPlanIsDropped) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.interrupted = [] { return true; };  // nothing is found
  for (const auto& [node, choice] : slow_default().choices) options.previous[node] = *choice.schedule;
  const Graph graph = small_network();
  const TuneResult result = tune(graph, inputs_of(graph), native(), options);
  EXPECT_TRUE(result.same_plan);
  EXPECT_FALSE(result.kept);
  EXPECT_TRUE(result.choices.empty());
  EXPECT_THAT(result.given_up, testing::MatchesRegex("it took [1-9].* of the default's time in this race"));
}

TEST(Tuner, InapplicablePreviousPlanIsSkipped) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.interrupted = [] { return true; };  // nothing is found
  options.previous["conv1"] = parse_schedule("conv2d_winograd m=4 vectors=1 tile=1 count=1 split=0 prefetch=0");
  options.previous["conv10"].threads = 1;  // would win if it were raced
  const Graph graph = small_network();
  const TuneResult result = tune(graph, inputs_of(graph), slow_default(), options);
  EXPECT_FALSE(result.kept);
  EXPECT_TRUE(result.same_plan);
  EXPECT_TRUE(result.choices.empty());
  EXPECT_EQ(result.given_up, "it no longer compiles under these options, or one of its schedules has failed since");
}

TEST(Tuner, RunOfSomeOperatorsKeepsOtherChoices) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.ops = {"conv2d"};
  for (const auto& [node, choice] : slow_default().choices) options.previous[node] = *choice.schedule;
  options.previous["pool5"].threads = 1;  // no convolution
  const Graph graph = small_network();
  const TuneResult result = tune(graph, inputs_of(graph), slow_default(), options);
  ASSERT_FALSE(result.kept);
  EXPECT_GT(result.choices.size(), 1U);
  ASSERT_TRUE(result.choices.contains("pool5"));
  EXPECT_EQ(result.choices.at("pool5"), options.previous.at("pool5"));
}

TEST(Tuner, RaceResultIsReportedBeforeTheGraphTunerStarts) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.interrupted = [] { return true; };  // nothing is found
  options.previous["conv1"].threads = 1;
  std::vector<std::string> order;
  options.event = [&](const TuneEvent& event) {
    if (const auto* phase = std::get_if<PhaseEvent>(&event.what)) order.push_back(phase->phase);
  };
  options.raced = [&](const TuneResult& raced) {
    order.emplace_back("raced");
    EXPECT_EQ(raced.choices, options.previous);
    EXPECT_TRUE(raced.kept);
  };
  const Graph graph = small_network();
  tune(graph, inputs_of(graph), slow_default(), options);
  EXPECT_EQ(order, (std::vector<std::string>{"preparing", "searching", "racing", "raced"}));
}

TEST(Tuner, RejectedPlanIsReported) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.trials = 100;
  const Graph graph = small_network();
  tune(graph, inputs_of(graph), native(), options);
  // These records promise half of the default's time for a schedule that is really much slower.
  const std::string slow = "conv2d_direct vectors=1 rows=1 tile=1 prefetch=0";
  options.known.clear();
  for (Record r : kept) {
    if (!r.versus || !r.schedule.starts_with("conv2d_direct") || r.versus->schedule == slow) continue;
    for (double& ms : r.samples_ms) ms /= 2 * r.versus->ratio.value;
    r.versus->ratio = {0.5, 0.49, 0.51}, r.schedule = slow;
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

TEST(Tuner, BudgetCoversTheWholeRun) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.seconds = 8, options.trials = 0, options.graph_best = true;
  const Graph graph = small_network();
  const TuneResult result = tune(graph, inputs_of(graph), native(), options);
  EXPECT_GT(result.trials, 0);
  EXPECT_LT(result.seconds, 60);  // the last batch and the last race finish while other tests run
  EXPECT_FALSE(result.graph.has_value());
  EXPECT_TRUE(result.graph_left_out.starts_with("it needs 3 s, but ")) << result.graph_left_out;
  EXPECT_TRUE(
      result.graph_left_out.ends_with(" s of the budget were left; a budget of 20 s or more reserves time for it"))
      << result.graph_left_out;
}

TEST(Tuner, SkippedGraphTunerSaysWhy) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.trials = 5, options.graph_best = true, options.ops = {"conv2d"};
  const Graph graph = small_network();
  EXPECT_EQ(tune(graph, inputs_of(graph), native(), options).graph_left_out,
            "it chooses for all layers, but --ops limits them");
  options.ops.clear();
  options.interrupted = [] { return true; };
  EXPECT_EQ(tune(graph, inputs_of(graph), native(), options).graph_left_out, "the run was interrupted");
}

TEST(Tuner, UnknownOperatorsAreErrors) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.ops = {"conv2d", "lstm"};
  const Graph graph = small_network();
  try {
    tune(graph, inputs_of(graph), native(), options);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_TRUE(
        e.message().starts_with("--ops lstm: no task of this network is of this kind; legal values are conv2d, "))
        << e.message();
  }
}

TEST(Tuner, InterruptedRunsEndSoonAndKeepTheirResults) {
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
  options.seconds = 600, options.trials = 0, options.until = 0.9;
  const Graph graph = small_network();
  const TuneResult result = tune(graph, inputs_of(graph), native(), options);
  EXPECT_TRUE(result.stopped_because.starts_with("no more than ")) << result.stopped_because;
  EXPECT_TRUE(result.stopped_because.ends_with(" % is expected to be left")) << result.stopped_because;
  EXPECT_LE(result.trace.points.back().remaining, 0.1);
}

TEST(Tuner, EndsAfterTrialsWithoutAGain) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.seconds = 600, options.trials = 0, options.early_stopping = 40;
  double least_ms = INFINITY;
  int64_t last = 0;  // trials done when the best expected time last fell clearly
  options.event = [&](const TuneEvent& event) {
    const auto* gain = std::get_if<GainEvent>(&event.what);
    if (gain == nullptr || gain->ratio.value >= 1 || gain->predicted_ms >= 0.98 * least_ms) return;
    least_ms = gain->predicted_ms;
    last = event.trials;
  };
  const Graph graph = small_network();
  const TuneResult result = tune(graph, inputs_of(graph), slow_default(), options);
  int64_t without = 0;
  EXPECT_EQ(std::sscanf(result.stopped_because.c_str(), "no gain in %" SCNd64 " trials", &without), 1)
      << result.stopped_because;
  EXPECT_GE(without, 40);
  EXPECT_GT(last, 0);
  EXPECT_GE(result.trials - last, without) << "a gain of any task counts";
}

TEST(Tuner, TrialLimitIsKept) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.trials = 5;
  const Graph graph = small_network();
  const TuneResult result = tune(graph, inputs_of(graph), native(), options);
  EXPECT_EQ(result.trials, 5);
  EXPECT_EQ(result.first_trials, 5);
  EXPECT_EQ(result.stopped_because, "5 trials are done");
  EXPECT_FALSE(result.building.empty());
}

/// Until it is stopped, sends SIGSEGV to each worker of this process that has used a fifth of a second of CPU time.
class Killer {
 public:
  explicit Killer(std::atomic<bool>& enough) : enough_(enough), thread_([this] { run(); }) {}
  ~Killer() {
    enough_ = true;
    thread_.join();
  }
  Killer(const Killer&) = delete;
  Killer& operator=(const Killer&) = delete;

 private:
  void run() {
    for (int i = 0; i < 100 && !enough_; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(70 + 10 * i));
      for (const int pid : workers()) kill(pid, SIGSEGV);
    }
  }
  static std::vector<int> workers() {
    std::vector<int> out;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream in(entry.path() / "stat");
      int pid = 0, parent = 0;
      std::string name, state, skipped;
      if (!(in >> pid >> name >> state >> parent) || parent != getpid() || name != "(kilter-worker)") continue;
      for (int field = 5; field < 14; ++field) in >> skipped;
      int64_t user = 0, system = 0;                                         // 1 / 100 s
      if (in >> user >> system && user + system >= 20) out.push_back(pid);  // it must make some progress first
    }
    return out;
  }

  std::atomic<bool>& enough_;
  std::thread thread_;
};

/// Tunes while a Killer is at work, until two candidates have crashed.
TuneResult tune_with_crashes(const Graph& graph, TuneOptions options, int64_t& crashes) {
  std::atomic<bool> enough = false, search = false;
  options.event = [&](const TuneEvent& event) {
    const auto* trial = std::get_if<TrialEvent>(&event.what);
    if (trial == nullptr || trial->status != Status::crash) return;
    EXPECT_NE(trial->error.find("signal 11 (Segmentation fault) at step "), std::string::npos) << trial->error;
    enough = ++crashes >= 2;
  };
  std::optional<Killer> killer;
  options.progress = [&](const TuneProgress& p) {
    if (p.phase == "racing") enough = true;
    if (p.phase == "preparing" && !search.exchange(true)) killer.emplace(enough);
  };
  return tune(graph, inputs_of(graph), native(), options);
}

TEST(Tuner, ContinuesWhenCandidatesCrash) {
  const Graph graph = small_network();
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.trials = 60;
  options.trial.repeat = 3, options.trial.min_repeat_ms = 40;  // so the worker mostly measures
  TuneResult result;
  int64_t crashes = 0;
  // A run rightly ends early if the signals happen to strike the default plan in three batches in a row.
  for (int attempt = 0; attempt < 6; ++attempt) {
    kept.clear(), crashes = 0;
    result = tune_with_crashes(graph, options, crashes);
    if (!result.stopped_because.starts_with("the network does not run under its default schedules")) break;
  }
  ASSERT_GE(crashes, 1);
  EXPECT_EQ(result.failures, crashes);
  ASSERT_EQ(result.failed.size(), 1U);
  EXPECT_EQ(result.failed.at(Status::crash).count, crashes);
  EXPECT_NE(result.failed.at(Status::crash).error.find("signal 11 (Segmentation fault) at step "), std::string::npos);
  EXPECT_EQ(to_json(result)["failed"]["crash"]["count"], crashes);
  EXPECT_GE(result.restarts, 1);
  EXPECT_EQ(result.trials + result.failures, 60) << result.stopped_because;
  EXPECT_LE(result.ratio.high, 1);
  std::set<std::string> crashed;
  for (const Record& r : kept) {
    if (r.status == Status::crash) crashed.insert(r.problem + r.layouts + r.schedule);
  }
  EXPECT_EQ(static_cast<int64_t>(crashed.size()), crashes);
  // Schedules that crashed are not tried again, not even in the next run.
  options.known = kept;
  std::vector<Record> more;
  options.keep = [&more](std::span<const Record> records) { more.insert(more.end(), records.begin(), records.end()); };
  tune(graph, inputs_of(graph), native(), options);
  for (const Record& r : more) EXPECT_FALSE(crashed.contains(r.problem + r.layouts + r.schedule)) << r.schedule;
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
      // Without XGBoost, the searchers that need it say what to install.
      EXPECT_TRUE(row.name.starts_with("xgb")) << row.name << ": " << e.message();
      EXPECT_NE(e.message().find("xgboost"), std::string::npos) << e.message();
    }
  }
}

TEST(Tuner, TunesOnlyTheRequestedTasks) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.trials = 10;
  options.ops = {"maxpool"};
  const Graph graph = small_network();
  const TuneResult result = tune(graph, inputs_of(graph), native(), options);
  ASSERT_FALSE(result.tasks.empty());
  for (const TunedTask& t : result.tasks) EXPECT_TRUE(t.problem.starts_with("maxpool(")) << t.problem;
  EXPECT_EQ(result.tasks.front().number, 2) << "numbers are those of all tasks: the first convolution is before it";
}

}  // namespace
}  // namespace kilter::tune
