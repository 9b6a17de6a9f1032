#include "tune/tuner/tuner.h"

#include <algorithm>

#include "measure/clock.h"
#include "measure/conditions.h"
#include "tune/records/match.h"
#include "tune/tuner/default_check.h"
#include "tune/tuner/final_race.h"
#include "tune/tuner/weight_budget.h"

namespace kilter::tune {
namespace {

/// Share of the budget that races of whole networks may take, and its ends in seconds.
constexpr double kRaceShare = 0.15, kLeastRace = 3, kMostRace = 40;
/// The same of the graph tuner, its race included; compiling for it takes as long again.
constexpr double kGraphShare = 0.15, kLeastGraph = 3, kMostGraph = 30;
/// Seconds of a budget from which on that share is held back for it.
constexpr double kGraphBudget = 20;

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
    const Candidate* leader = task.leader();
    const double cost = task.believed_cost(search.noise());
    const double low = leader != nullptr ? std::min(cost, task.beliefs(search.noise()).cost(leader->ratios)) : cost;
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
      row.in_network = race.layers.at(row.nodes.front());
      const auto known = task.candidates().find(it->second);
      row.predicted = known == task.candidates().end() ? row.in_network : known->second.ratios.ratio(search.noise());
    }
    row.trials = task.trials();
    row.tried = task.tried(), row.size = static_cast<int64_t>(task.pruned().points.size());
    for (const auto& [text, c] : task.candidates()) row.failures += c.status != Status::ok ? 1 : 0;
    row.space = task.pruned().text();
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Why the graph tuner has no turn; empty where it has one.
std::string left_out(const TuneOptions& options, double end_ms) {
  if (options.interrupted && options.interrupted()) return "the run was interrupted";
  if (!options.ops.empty()) return "it chooses for all layers, and --ops names some";
  const double left = (end_ms - now_ms()) / 1e3;
  if (left >= kLeastGraph) return {};
  return fmt::format(
      "it needs {:.0f} s, and {:.1f} s of the budget were left; of {:.0f} s and more some are held back for it",
      kLeastGraph, std::max(0.0, left), kGraphBudget);
}

/// What layers of a task run under a plan.
std::string schedule_text(const TunedTask& task, const std::string& node, const Choices& choices) {
  const auto choice = choices.find(node);
  if (choice == choices.end()) return task.fallback;
  return (choice->second.schedule ? "" : task.fallback + " ") + text(choice->second);
}

/// The rows as the graph tuner leaves them, which may give layers of one task different schedules.
void take_graph_best(std::vector<TunedTask>& rows, const GraphBest& graph) {
  for (TunedTask& row : rows) {
    std::map<std::string, int64_t> layers;
    for (const std::string& node : row.nodes) ++layers[schedule_text(row, node, graph.choices)];
    const auto most = std::ranges::max_element(layers, {}, [](const auto& one) { return one.second; });
    const auto node = std::ranges::find_if(
        row.nodes, [&](const std::string& n) { return schedule_text(row, n, graph.choices) == most->first; });
    const bool same = row.schedule == most->first;
    row.schedule = most->first;
    row.otherwise = static_cast<int64_t>(row.nodes.size()) - most->second;
    const auto raced = graph.raced.find(*node);
    row.in_network = raced == graph.raced.end() ? Ratio{1, 1, 1} : raced->second;
    if (!same) row.predicted = row.in_network;
  }
}

/// The graph tuner's turn until `end_ms`, and what it changes of the result.
void choose_graph_best(NetworkBench& bench, const std::vector<Record>& records, const TuneOptions& options,
                       double seconds, double end_ms, TuneResult& result) {
  GraphTuneOptions how;
  how.threads = options.threads, how.device = options.device, how.records = options.records;
  how.runner = options.runner;
  how.measure_seconds = how.race_seconds = seconds / 2;
  how.end_ms = end_ms;
  how.interrupted = options.interrupted;
  try {
    result.graph = graph_best(bench, records, result.choices, how);
  } catch (const Error& e) {
    result.graph_failed = e.message();  // what the search and the race found stands
    return;
  }
  if (!result.graph->won) return;
  result.choices = result.graph->choices;
  result.same_plan = result.kept = false;
  result.ratio = result.graph->default_ratio, result.tuned_ms = result.graph->ms;
  result.rounds = result.graph->rounds;
  result.default_ms = result.graph->default_ms;
  take_graph_best(result.tasks, *result.graph);
}

std::vector<Record> raced_records(const SearchRun& search, const FinalRace& race) {
  std::vector<Record> out;
  for (const RaceSample& s : race.samples) out.push_back(search.record(s.task, s.schedule, s.ms, s.ratio));
  return out;
}

/// What the race of history-best says, and what was found on the way to it.
TuneResult raced_result(const SearchRun& search, const FinalRace& race) {
  TuneResult out;
  out.choices = out.history = race.choices;
  out.same_plan = race.same_plan, out.kept = race.kept;
  out.ratio = out.history_ratio = race.ratio;
  out.default_ms = race.default_ms, out.tuned_ms = race.tuned_ms;
  if (race.same_plan) {
    const double ms = search.default_ms();
    out.default_ms = out.tuned_ms = race.rejected ? race.rejected->default_ms : Ratio{ms, ms, ms};
  }
  out.previous = race.previous, out.rejected = race.rejected;
  out.rounds = race.rounds, out.flips = race.flips, out.fidelity = race.fidelity;
  out.trials = search.trials(), out.failures = search.failures();
  out.regret = regret(search);
  out.stopped_because = search.stopped_because();
  out.tasks = task_rows(search, race);
  out.conditions = search.conditions();
  return out;
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

/// With what the races found in place of what the search expects.
TuneProgress of_races(TuneProgress progress, const TuneResult& result) {
  progress.default_ms = result.default_ms.value, progress.predicted_ms = result.tuned_ms.value;
  progress.remaining = result.regret;
  return progress;
}

/// Seconds of what is not the search.
struct Around {
  double preparing = 0, checking = 0, racing = 0;
};

std::vector<PhaseTime> phases(const SearchRun& search, const Around& around) {
  return {{"preparing", around.preparing},
          {"checking the default plan", around.checking},
          {"compiling candidates", search.compile_seconds()},
          {"loading and checking", search.check_seconds()},
          {"measuring", search.measure_seconds()},
          {"racing whole networks", around.racing}};
}

}  // namespace

TuneResult tune(Graph graph, std::vector<Tensor> inputs, const CompileOptions& given, const TuneOptions& asked) {
  const double start = now_ms();
  TuneLog log(asked.event);
  log.tell(0, PhaseEvent{"preparing"});
  CompileOptions compile = given;
  const auto builders = static_cast<int>(share_cpus(affinity_cpus(), asked.threads).building.size());
  compile.compile_threads =
      asked.trial.n_parallel > 0 ? asked.trial.n_parallel : std::min(compile.compile_threads, builders);
  std::vector<Record> records = asked.known;
  TuneOptions options = asked;
  options.keep = [&](std::span<const Record> fresh) {
    records.insert(records.end(), fresh.begin(), fresh.end());
    if (asked.keep) asked.keep(fresh);
  };
  options.runner.timeout_ms = options.trial.timeout_ms;
  RunnerOptions runner = options.runner;
  runner.inputs = inputs;
  runner.threads = options.threads;
  NetworkBench bench(std::move(graph), compile, std::move(runner));
  const double built = now_ms();
  require_right(check_default(bench.fallback().compiled, inputs, bench.tasks(), options.threads));
  const double checked = now_ms();
  SearchRun search(bench, options, compile, log);
  const Choices previous = asked.previous.empty() ? previous_choices(search) : asked.previous;
  const double prepared = now_ms();
  search.show("preparing");
  log.tell(0, prepared_event(search));
  log.tell(0, PhaseEvent{"searching"});
  const double end_at = start + options.seconds * 1e3;
  const double race_seconds =
      std::min(std::clamp(options.seconds * kRaceShare, kLeastRace, kMostRace), options.seconds / 4);
  const bool graph_turn = options.graph_best && options.seconds >= kGraphBudget && options.ops.empty();
  const double graph_seconds = graph_turn ? std::clamp(options.seconds * kGraphShare, kLeastGraph, kMostGraph) : 0;
  search.run(start + std::max(options.seconds - race_seconds - graph_seconds, options.seconds / 4) * 1e3);
  const double searched = now_ms();
  log.tell(search.trials(), PhaseEvent{"racing"});
  if (options.progress) options.progress(search.progress("racing"));
  RaceLimits limits;
  const bool short_race = options.interrupted && options.interrupted();
  const double left = (end_at - searched) / 1e3 - graph_seconds;
  limits.seconds = std::max(1.0, std::min(short_race ? kLeastRace : left, race_seconds));
  const FinalRace race = race_plans(bench, search, previous, limits);
  if (!race.samples.empty()) options.keep(raced_records(search, race));
  const double raced = now_ms();

  TuneResult result = raced_result(search, race);
  if (options.graph_best) result.graph_left_out = left_out(options, end_at);
  if (options.graph_best && result.graph_left_out.empty()) {
    log.tell(search.trials(), PhaseEvent{"choosing"});
    if (options.progress) options.progress(of_races(search.progress("choosing"), result));
    choose_graph_best(bench, records, options, graph_seconds, end_at, result);
  }
  result.choices = with_slimmed(std::move(result.choices), bench.fallback().compiled);
  result.history = with_slimmed(std::move(result.history), bench.fallback().compiled);
  const double end = now_ms();
  result.restarts = bench.runner().restarts();
  result.seconds = (end - start) / 1e3;
  result.trials_per_second = static_cast<double>(search.trials()) / std::max(1e-9, (searched - prepared) / 1e3);
  result.phases =
      phases(search, {(built - start + prepared - checked) / 1e3, (checked - built) / 1e3, (raced - searched) / 1e3});
  if (result.graph) result.phases.push_back({"graph tuner", (end - raced) / 1e3});
  result.trace = log.finish();
  if (options.progress) options.progress(of_races(search.progress("done"), result));
  return result;
}

}  // namespace kilter::tune
