#include "tune/tuner/tuner.h"

#include <algorithm>

#include "measure/clock.h"
#include "tune/records/match.h"
#include "tune/tuner/final_race.h"

namespace kilter::tune {
namespace {

/// Share of the budget that races of whole networks may take, and its ends in seconds.
constexpr double kRaceShare = 0.15, kLeastRace = 3, kMostRace = 40;

/// What earlier records would give.
Choices previous_choices(const SearchRun& search) {
  Choices all;
  for (const TaskState& task : search.tasks()) {
    const Candidate* best = task.winner(search.noise());
    if (best == nullptr) continue;
    for (const std::string& node : task.task().nodes) all[node] = best->schedule;
  }
  return all;
}

/// How far the accepted schedules may be from the best of what was tried, as their intervals allow, and from the best
/// of what was not.
double regret(const SearchRun& search) {
  double lost = 0;
  for (size_t t = 0; t < search.tasks().size(); ++t) {
    const TaskState& task = search.tasks()[t];
    const Candidate* best = task.winner(search.noise());
    const Candidate* leader = task.leader();
    const double cost = best != nullptr ? best->ratios.cost() : 1;
    const double low = leader != nullptr ? std::min(cost, leader->ratios.cost()) : cost;
    lost += search.share(t) * (cost - low);
  }
  return lost * search.default_ms() / search.predicted_ms() + search.remaining();
}

std::vector<TunedTask> task_rows(const SearchRun& search, const FinalRace& race) {
  std::vector<TunedTask> rows;
  for (size_t t = 0; t < search.tasks().size(); ++t) {
    const TaskState& task = search.tasks()[t];
    TunedTask row;
    row.problem = task.task().problem, row.layouts = task.task().layouts, row.nodes = task.task().nodes;
    row.share = search.share(t);
    row.fallback = row.schedule = task.task().fallback.text();
    if (const auto it = race.accepted.find(t); it != race.accepted.end()) {
      row.schedule = it->second;
      row.predicted = task.candidates().at(it->second).ratios.ratio(search.noise());
      row.in_network = race.layers.at(row.nodes.front());
    }
    row.trials = task.trials();
    row.tried = task.tried(), row.size = static_cast<int64_t>(task.pruned().points.size());
    for (const auto& [text, c] : task.candidates()) row.failures += c.status != Status::ok ? 1 : 0;
    row.space = task.pruned().text();
    rows.push_back(std::move(row));
  }
  return rows;
}

PreparedEvent prepared_event(const SearchRun& search) {
  PreparedEvent out{search.default_ms(), search.conditions(), {}};
  for (size_t t = 0; t < search.tasks().size(); ++t) {
    const TaskState& task = search.tasks()[t];
    const NetworkTask& of = task.task();
    out.tasks.push_back({of.problem, of.layouts, of.nodes, search.share(t), of.fallback.text(), search.best(t),
                         static_cast<int64_t>(task.pruned().points.size())});
  }
  return out;
}

}  // namespace

TuneResult tune(Graph graph, std::vector<Tensor> inputs, const CompileOptions& given, const TuneOptions& options) {
  const double start = now_ms();
  TuneLog log(options.event);
  log.tell(0, PhaseEvent{"preparing"});
  CompileOptions compile = given;
  if (options.trial.n_parallel > 0) compile.compile_threads = options.trial.n_parallel;
  RunnerOptions runner = options.runner;
  runner.inputs = std::move(inputs);
  runner.threads = options.threads;
  runner.timeout_ms = options.trial.timeout_ms;
  NetworkBench bench(std::move(graph), compile, std::move(runner));
  SearchRun search(bench, options, compile, log);
  const Choices previous = previous_choices(search);
  const double prepared = now_ms();
  search.show("preparing");
  log.tell(0, prepared_event(search));
  log.tell(0, PhaseEvent{"searching"});
  const double race_seconds = std::clamp(options.seconds * kRaceShare, kLeastRace, kMostRace);
  search.run(start + std::max(options.seconds - race_seconds, options.seconds / 4) * 1e3);
  const double searched = now_ms();
  log.tell(search.trials(), PhaseEvent{"racing"});
  if (options.progress) options.progress(search.progress("racing"));
  RaceLimits limits;
  const bool short_race = options.interrupted && options.interrupted();
  limits.seconds = short_race ? kLeastRace : race_seconds;
  const FinalRace race = race_plans(bench, search, previous, limits);
  if (options.keep && !race.samples.empty()) {
    std::vector<Record> records;
    for (const RaceSample& s : race.samples) records.push_back(search.record(s.task, s.schedule, s.ms, s.ratio));
    options.keep(records);
  }
  const double end = now_ms();

  TuneResult result;
  result.choices = race.choices;
  result.same_plan = race.same_plan;
  result.ratio = race.ratio, result.default_ms = race.default_ms, result.tuned_ms = race.tuned_ms;
  if (race.same_plan)
    result.default_ms = result.tuned_ms = {search.default_ms(), search.default_ms(), search.default_ms()};
  result.previous = race.previous, result.has_previous = race.has_previous;
  result.rounds = race.rounds, result.flips = race.flips, result.fidelity = race.fidelity;
  result.trials = search.trials(), result.failures = search.failures();
  result.restarts = bench.runner().restarts();
  result.seconds = (end - start) / 1e3;
  result.trials_per_second = static_cast<double>(search.trials()) / std::max(1e-9, (searched - prepared) / 1e3);
  result.regret = regret(search);
  result.stopped_because = search.stopped_because();
  result.phases = {{"preparing", (prepared - start) / 1e3},
                   {"compiling candidates", search.compile_seconds()},
                   {"loading and checking", search.check_seconds()},
                   {"measuring", search.measure_seconds()},
                   {"racing whole networks", (end - searched) / 1e3}};
  result.tasks = task_rows(search, race);
  result.conditions = search.conditions();
  result.trace = log.finish();
  if (options.progress) options.progress(search.progress("done"));
  return result;
}

}  // namespace kilter::tune
