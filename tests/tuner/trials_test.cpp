// The effects of --repeat, --number, --min-repeat-ms, --timeout and --n-parallel on trials.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "measure/conditions.h"
#include "short_run.h"
#include "tune/tuner/trial_options.h"
#include "tune/tuner/tune_json.h"

namespace kilter::tune {
namespace {

TEST(Trials, PairsPerTrialAreLimitedByRounds) {
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
    // A round gives no pair of times if the core was shared or the run was held up.
    EXPECT_LE(trial->samples, 3) << trial->schedule;
    EXPECT_GE(trial->samples, 1) << trial->schedule;
  };
  const Graph graph = small_network();
  tune(graph, inputs_of(graph), native(), options);
  EXPECT_GE(trials, 20);
}

/// Runs one batch of trials. Returns the number of network runs in it.
int64_t runs_of(const TrialOptions& trial) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.trial = trial;
  options.interrupted = [&] { return !kept.empty(); };  // after one batch
  const Graph graph = small_network();
  const TuneResult result = tune(graph, inputs_of(graph), native(), options);
  EXPECT_GE(result.trials, 1);
  EXPECT_EQ(nlohmann::json::parse(to_json(result).dump())["runs"], result.runs);
  return result.runs;
}

TEST(Trials, NumberAndMinimumTimeSetTheRunsPerTurn) {
  TrialOptions trial;
  trial.repeat = 1, trial.min_repeat_ms = 0, trial.timeout_ms = 5000;
  const int64_t once = runs_of(trial);
  trial.number = 8;
  const int64_t eight = runs_of(trial);
  EXPECT_GE(eight, 2 * 8 * 2);                 // two turns of the default and of one variant
  EXPECT_GE(eight, 4 * once);                  // a much slower variant is stopped after one turn
  trial.number = 1, trial.min_repeat_ms = 50;  // a run takes about 1 ms
  EXPECT_GE(runs_of(trial), 4 * once);
}

TEST(Trials, TimeoutIsPassedToTheRunner) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.trial.timeout_ms = 10, options.runner.timeout_factor = 1e-6;
  CompileOptions compile = native();
  compile.choices["conv1"].schedule = parse_schedule("reference");  // takes more than 10 ms
  const Graph graph = zoo::build("squeezenet1_1", {.size = 384, .classes = 10});
  try {
    tune(graph, inputs_of(graph), compile, options);
    ADD_FAILURE() << "a step of more than 10 ms came to its end";
  } catch (const Error& e) {
    EXPECT_NE(e.message().find("the limit is 10 ms, 1e-06 times a run of the trusted variant and at least 10 ms"),
              std::string::npos)
        << e.message();
  }
}

/// Compiles and measures one batch. Returns the maximum number of threads that this process had meanwhile.
int64_t most_threads(int n_parallel) {
  std::atomic<bool> done = false;
  int64_t most = 0;
  std::thread watch([&] {
    for (; !done; std::this_thread::sleep_for(std::chrono::microseconds(200))) {
      const auto tasks = std::filesystem::directory_iterator("/proc/self/task");
      most = std::max<int64_t>(most, std::distance(begin(tasks), end(tasks)));
    }
  });
  TrialOptions trial;
  trial.repeat = 1, trial.min_repeat_ms = 0, trial.timeout_ms = 5000, trial.n_parallel = n_parallel;
  runs_of(trial);
  done = true;
  watch.join();
  return most;
}

TEST(Trials, RequestedNumberOfThreadsCompile) { EXPECT_GE(most_threads(8), most_threads(1) + 4); }

/// If a network uses as many threads as there are CPUs, each batch of candidates is first compiled, then measured.
TEST(Trials, WithoutAFreeCpuBatchesAreCompiledAndMeasuredInTurns) {
  const std::vector<int> all = affinity_cpus();
  const std::vector<int> few(all.begin(), all.begin() + std::min<std::ptrdiff_t>(2, std::ssize(all)));
  ASSERT_TRUE(set_affinity(few));
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.trials = 80, options.threads = static_cast<int>(few.size());
  ASSERT_FALSE(share_cpus(few, options.threads).apart);
  const Graph graph = small_network();
  const TuneResult result = tune(graph, inputs_of(graph), native(), options);
  set_affinity(all);
  EXPECT_GE(result.trials, 80);
  EXPECT_EQ(result.failures, 0);
  EXPECT_GE(result.trace.points.size(), 3U) << "batches that followed one another";
  EXPECT_EQ(result.conditions.threads, options.threads);
  EXPECT_EQ(result.conditions.pinning, cpu_list_text(few));
  std::set<std::string> tried;
  for (const Record& r : kept) tried.insert(r.problem + r.layouts + r.schedule);
  EXPECT_GE(tried.size(), 40U);
  const auto seconds = [&](const std::string& phase) {
    return std::ranges::find(result.phases, phase, &PhaseTime::phase)->seconds;
  };
  const TuneTrace::Span& search = result.trace.spans.at(1);
  EXPECT_EQ(search.phase, "searching");
  EXPECT_LE(seconds("compiling candidates") + seconds("loading and checking") + seconds("measuring"),
            search.end - search.begin + 0.01)
      << "nothing went on at the same time";
}

}  // namespace
}  // namespace kilter::tune
