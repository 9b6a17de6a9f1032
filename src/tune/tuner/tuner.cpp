#include "tune/tuner/tuner.h"

#include <algorithm>
#include <cmath>

#include "codegen/backend.h"
#include "measure/clock.h"
#include "measure/conditions.h"
#include "tune/records/match.h"
#include "tune/tuner/plans/apply.h"
#include "tune/tuner/plans/weight_budget.h"
#include "tune/tuner/race/contest.h"
#include "tune/tuner/race/final_race.h"
#include "tune/tuner/race/reference_check.h"

namespace kilter::tune {
namespace {

/// Share of the budget for races of whole networks, and the lower and upper limits of their time in seconds.
constexpr double kRaceShare = 0.15, kLeastRace = 3, kMostRace = 40;
/// Share of the budget for the graph tuner and its race, with limits in seconds; compiling for it takes as long again.
constexpr double kGraphShare = 0.15, kLeastGraph = 3, kMostGraph = 30;
/// The smallest budget, in seconds, from which this share is reserved.
constexpr double kGraphBudget = 20;
/// The largest share of the budget that is reserved for checking the winning plan.
constexpr double kCheckShare = 0.05;

/// The plan that follows from earlier records: the winners among the records of these conditions, and `recorded` for
/// tasks without a winner, unless its schedule was already tried under these conditions.
Choices previous_choices(const SearchRun& search, const Choices& recorded) {
  Choices all;
  for (const TaskState& task : search.tasks()) {
    const Candidate* best = task.winner(search.noise());
    for (const std::string& node : task.task().nodes) {
      const auto other = recorded.find(node);
      if (best != nullptr)
        all[node] = best->schedule;
      else if (other != recorded.end() && task.find(*other->second.schedule) == nullptr)
        all[node] = other->second;
    }
  }
  return all;
}

/// Returns a schedule's candidate if it was measured. Null if it was only proposed, which can be the case for the
/// previous plan's schedules.
const Candidate* measured(const TaskState& task, const std::string& schedule) {
  const auto known = task.candidates().find(schedule);
  return known == task.candidates().end() || known->second.ratios.empty() ? nullptr : &known->second;
}

/// The expected distance of the accepted schedules from the best that was tried, according to the beliefs, plus the
/// expected gain of the schedules that were not tried.
double regret(const SearchRun& search, const FinalRace& race) {
  double lost = 0;
  for (size_t t = 0; t < search.tasks().size(); ++t) {
    const TaskState& task = search.tasks()[t];
    const Beliefs beliefs = task.beliefs(search.noise());
    const auto believed = [&](const Candidate* c) { return c == nullptr ? 1 : beliefs.cost(c->ratios); };
    const auto taken = race.accepted.find(t);
    const double cost = believed(taken == race.accepted.end() ? nullptr : measured(task, taken->second));
    lost += search.share(t) * std::max(0.0, cost - believed(task.leader()));
  }
  return lost * search.default_ms() / search.predicted_ms() + search.remaining();
}

std::vector<TunedTask> task_rows(const SearchRun& search, const FinalRace& race) {
  std::vector<TunedTask> rows;
  for (size_t t = 0; t < search.tasks().size(); ++t) {
    const TaskState& task = search.tasks()[t];
    TunedTask row;
    row.number = task.task().number;
    row.problem = task.task().problem, row.layouts = task.task().layouts, row.nodes = task.task().nodes;
    row.share = search.share(t);
    row.fallback = row.schedule = task.task().fallback.text();
    if (const auto it = race.accepted.find(t); it != race.accepted.end()) {
      row.schedule = it->second;
      row.in_network = race.layers.at(row.nodes.front());
      const Candidate* known = measured(task, it->second);
      row.predicted = known == nullptr ? row.in_network : known->ratios.ratio(search.noise());
    }
    row.trials = task.trials();
    row.tried = task.tried(), row.size = task.size();
    for (const auto& [text, c] : task.candidates()) row.failures += c.status != Status::ok ? 1 : 0;
    row.space = task.pruned().text();
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Returns why the graph tuner is skipped; empty if it runs.
std::string left_out(const TuneOptions& options, double end_ms, bool refused) {
  if (options.interrupted && options.interrupted()) return "the run was interrupted";
  if (refused) return "the plan that won the race is not accepted";
  if (!options.ops.empty()) return "it chooses for all layers, but --ops limits them";
  const double left = (end_ms - now_ms()) / 1e3;
  if (left >= kLeastGraph) return {};
  return fmt::format(
      "it needs {:.0f} s, but {:.1f} s of the budget were left; a budget of {:.0f} s or more reserves time for it",
      kLeastGraph, std::max(0.0, left), kGraphBudget);
}

/// The text of the schedule and other choices under which a plan runs a layer of a task.
std::string schedule_text(const TunedTask& task, const std::string& node, const Choices& choices) {
  const auto choice = choices.find(node);
  if (choice == choices.end()) return task.fallback;
  return (choice->second.schedule ? "" : task.fallback + " ") + text(choice->second);
}

/// Updates the rows with the graph tuner's plan, which may give layers of one task different schedules.
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

/// Replaces the search's expectations with the results of the races.
TuneProgress of_races(TuneProgress progress, const TuneResult& result) {
  progress.default_ms = result.default_ms.value, progress.predicted_ms = result.tuned_ms.value;
  progress.remaining = result.regret;
  return progress;
}

/// Stores a record that bars the schedule that a check found wrong.
void bar_wrong(const ReferenceCheck& check, const SearchRun& search, const TuneOptions& options) {
  if (!check.layer) return;
  options.keep({{wrong_record(*check.layer, check.wrong, search.conditions(), search.versions(), options.network)}});
}

/// Runs the graph tuner until `end_ms` and updates the result.
void choose_graph_best(NetworkBench& bench, SearchRun& search, const std::vector<Record>& records,
                       const TuneOptions& options, double seconds, double end_ms, TuneResult& result) {
  GraphTuneOptions how;
  how.threads = options.threads, how.device = options.device, how.records = options.records;
  how.runner = options.runner;
  how.objective = options.objective;
  how.measure_seconds = how.race_seconds = seconds / 2;
  how.end_ms = end_ms;
  how.check = options.check, how.interrupted = options.interrupted;
  how.beat = [&] { search.show("choosing", [&](TuneProgress& p) { p = of_races(std::move(p), result); }); };
  how.beat();
  try {
    result.graph = graph_best(bench, records, result.choices, how);
  } catch (const Error& e) {
    result.graph_failed = e.message();  // the results of the search and the race remain valid
    return;
  }
  bar_wrong(result.graph->check, search, options);
  if (!result.graph->won) return;
  result.previous.reset();  // belongs to the plan that is not accepted
  result.unheld.clear(), result.given_up.clear();
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

/// The result of the race of history-best and of the search before it.
TuneResult raced_result(const SearchRun& search, const FinalRace& race) {
  TuneResult out;
  out.objective = search.objective();
  out.choices = out.history = race.choices;
  out.same_plan = race.same_plan, out.kept = race.kept;
  out.ratio = out.history_ratio = race.ratio;
  out.default_ms = race.default_ms, out.tuned_ms = race.tuned_ms;
  if (race.same_plan) {
    const double ms = search.default_ms();
    out.default_ms = out.tuned_ms = race.rejected ? race.rejected->default_ms : Ratio{ms, ms, ms};
  }
  out.previous = race.previous, out.rejected = race.rejected;
  out.unheld = race.unheld, out.given_up = race.given_up;
  out.rounds = race.rounds, out.flips = race.flips, out.fidelity = race.fidelity;
  out.trials = search.trials(), out.first_trials = search.first_trials(), out.failures = search.failures();
  out.failed = search.failed();
  out.runs = search.runs(), out.building = search.building();
  out.regret = regret(search, race), out.as_long_again = search.as_long_again();
  out.stopped_because = search.stopped_because();
  out.earlier = search.earlier();
  out.tasks = task_rows(search, race);
  out.conditions = search.conditions();
  return out;
}

/// Returns why the winning plan must not be accepted, according to the reference kernels; empty if it may be.
std::string refusal(NetworkBench& bench, const SearchRun& search, const TuneOptions& options, const Choices& won) {
  const ReferenceCheck check = checked(options.check, bench, won);
  bar_wrong(check, search, options);
  return (check.layer ? "it is wrong: " : "") + check.wrong;
}

/// Rejects the winning plan if it is not correct.
void check_winner(NetworkBench& bench, const SearchRun& search, const TuneOptions& options, TuneResult& result) {
  if (result.choices.empty()) return;
  result.refused = refusal(bench, search, options, result.choices);
  if (result.refused.empty()) return;
  const auto layers = static_cast<int64_t>(result.choices.size());
  result.rejected = RejectedPlan{result.default_ms, result.tuned_ms, result.ratio, result.rounds, layers};
  result.choices.clear(), result.history.clear(), result.previous.reset(), result.given_up.clear();
  result.same_plan = true, result.kept = false, result.flips = 1;
  result.ratio = result.history_ratio = {1, 1, 1}, result.tuned_ms = result.default_ms;
  for (TunedTask& row : result.tasks) row.schedule = row.fallback, row.in_network = row.predicted = {1, 1, 1};
}

PreparedEvent prepared_event(const SearchRun& search) {
  PreparedEvent out{search.default_ms(), search.conditions(), {}};
  for (size_t t = 0; t < search.tasks().size(); ++t) {
    const TaskState& task = search.tasks()[t];
    const NetworkTask& of = task.task();
    out.tasks.push_back({of.number, of.problem, of.layouts, of.nodes, search.share(t), of.fallback.text(),
                         search.best(t), task.size()});
  }
  return out;
}

/// Records the speeds of the tasks and the network under the defaults and under `accepted`, the plan of
/// `result.choices`.
void note_speeds(const SearchRun& search, const Variant& fallback, const Variant& accepted, TuneResult& result) {
  for (size_t t = 0; t < result.tasks.size(); ++t) {
    TunedTask& row = result.tasks[t];
    row.before = row.after = search.speed(t, 1, search.bound_of(fallback, row.nodes.front()));
    if (row.schedule == row.fallback) continue;
    const auto runs_it = [&](const std::string& n) { return schedule_text(row, n, result.choices) == row.schedule; };
    const auto found = std::ranges::find_if(row.nodes, runs_it);  // none if a kept plan sets more than schedules
    const std::string& node = found == row.nodes.end() ? row.nodes.front() : *found;
    row.after = search.speed(t, row.in_network.value, search.bound_of(accepted, node));
  }
  const auto flops = static_cast<double>(search.network_flops()) * 1e-6;
  const double before = result.default_ms.value, after = result.tuned_ms.value;
  result.before = {flops / before, search.bound_of(fallback) / before};
  result.after = {flops / after, search.bound_of(accepted) / after};
}

/// Records the memory of the default plan and of `accepted`, the plan of `result.choices`.
void note_memory(const NetworkBench& bench, const Variant& accepted, TuneResult& result) {
  result.default_memory = plan_memory(bench.fallback().compiled, bench.threads());
  result.tuned_memory = plan_memory(accepted.compiled, bench.threads());
}

/// The division of a budget: milliseconds on the clock of now_ms(), and seconds.
struct Budget {
  double end_ms, search_end_ms;
  double race_seconds, graph_seconds;
  double turn_seconds = 0;  ///< for the graph tuner and the check before it

  /// `check_ms`: time of checking the default plan against the reference kernels. Checking the winner takes at most as
  /// long, and so does checking the graph tuner's plan.
  Budget(const TuneOptions& options, double start_ms, double check_ms) {
    const double check = std::min(check_ms / 1e3, options.seconds * kCheckShare), seconds = options.seconds - check;
    end_ms = start_ms + seconds * 1e3;
    race_seconds = std::min(std::clamp(options.seconds * kRaceShare, kLeastRace, kMostRace), options.seconds / 4);
    const bool graph_turn = options.graph_best && options.seconds >= kGraphBudget && options.ops.empty();
    graph_seconds = graph_turn ? std::clamp(options.seconds * kGraphShare, kLeastGraph, kMostGraph) : 0;
    if (graph_turn) turn_seconds = graph_seconds + check;
    search_end_ms = start_ms + std::max(seconds - race_seconds - turn_seconds, options.seconds / 4) * 1e3;
  }
  /// If only the number of trials ends the search, gives the races and the graph tuner shares of the search's time.
  void follow(double search_seconds) {
    if (std::isfinite(end_ms)) return;
    const double all = search_seconds / (1 - kRaceShare - kGraphShare);
    race_seconds = std::clamp(all * kRaceShare, kLeastRace, kMostRace);
    graph_seconds = std::clamp(all * kGraphShare, kLeastGraph, kMostGraph);
  }
  /// Limits for the races that begin now.
  RaceLimits races(const TuneOptions& options) const {
    const double left = (end_ms - now_ms()) / 1e3 - turn_seconds;
    const bool interrupted = options.interrupted && options.interrupted();
    RaceLimits limits;
    limits.seconds = std::max(1.0, std::min(interrupted ? kInterruptedRace : left, race_seconds));
    limits.in_use = !options.previous.empty();
    limits.keep_others = limits.in_use && !options.ops.empty();
    limits.interrupted = options.interrupted;
    return limits;
  }
};

/// The times, by now_ms(), at which parts of a run were completed.
struct Moments {
  double start = 0, built = 0, checked = 0, prepared = 0, searched = 0, raced = 0, won = 0, end = 0;
};

std::vector<PhaseTime> phases(const SearchRun& search, const Moments& at, bool graph) {
  std::vector<PhaseTime> out{{"preparing", (at.built - at.start + at.prepared - at.checked) / 1e3},
                             {"checking the default plan", (at.checked - at.built) / 1e3},
                             {"compiling candidates", search.compile_seconds()},
                             {"loading and checking", search.check_seconds()},
                             {"measuring", search.measure_seconds()},
                             {"racing whole networks", (at.raced - at.searched) / 1e3},
                             {"checking the plan that won", (at.won - at.raced) / 1e3}};
  if (graph) out.push_back({"graph tuner", (at.end - at.won) / 1e3});
  return out;
}

/// Throws usage if the target's code does not run on the CPU.
void require_cpu(const Target& target) {
  const std::string_view device = backend_of(target).device;
  if (device == "cpu") return;
  fail(ErrorKind::usage,
       "target '{}': its code runs on the device '{}', and only code for CPUs is tuned; give a CPU as "
       "the target (`kilter targets` lists them)",
       target.name, device);
}

}  // namespace

double TuneResult::bytes_ratio() const { return tune::bytes_ratio(default_memory, tuned_memory); }

double TuneProgress::current_ms() const {
  double share = 1;
  for (const TaskProgress& t : tasks) share -= t.share * (1 - t.current);
  return default_ms * share;
}

TuneResult tune(Graph graph, std::vector<Tensor> inputs, const CompileOptions& given, const TuneOptions& asked) {
  require_cpu(given.target);
  const double start = now_ms();
  TuneLog log(asked.event);
  log.tell(0, PhaseEvent{"preparing"});
  CompileOptions compile = given;
  const auto builders = static_cast<int>(cpus_for(asked.threads).building.size());
  compile.threads = asked.trial.n_parallel > 0 ? asked.trial.n_parallel : std::min(compile.threads, builders);
  std::vector<Record> records = asked.known;
  TuneOptions options = asked;
  options.keep = [&](std::span<const Record> fresh) {
    records.insert(records.end(), fresh.begin(), fresh.end());
    if (asked.keep) asked.keep(fresh);
  };
  options.runner.timeout_ms = options.trial.timeout_ms;
  RunnerOptions runner = options.runner;
  runner.inputs = std::move(inputs);
  runner.threads = options.threads;
  const Choices recorded =
      history_best_choices(graph, compile, options.known, {options.records, options.device, options.threads});
  NetworkBench bench(std::move(graph), compile, std::move(runner));
  Moments at{start, now_ms()};
  require_right(check_default(bench));
  at.checked = now_ms();
  SearchRun search(bench, options, compile, recorded, log);
  const Choices previous = asked.previous.empty() ? previous_choices(search, recorded) : asked.previous;
  at.prepared = now_ms();
  search.show("preparing");
  log.tell(0, prepared_event(search));
  log.tell(0, PhaseEvent{"searching"});
  Budget budget(options, start, at.checked - at.built);
  search.run(budget.search_end_ms);
  at.searched = now_ms();
  budget.follow((at.searched - at.prepared) / 1e3);
  log.tell(search.trials(), PhaseEvent{"racing"});
  search.show("racing");
  RaceLimits limits = budget.races(options);
  limits.beat = [&] { search.show("racing"); };
  const FinalRace race = race_plans(bench, search, previous, limits);
  if (!race.samples.empty()) options.keep(raced_records(search, race));
  at.raced = now_ms();

  TuneResult result = raced_result(search, race);
  check_winner(bench, search, options, result);
  at.won = now_ms();
  if (options.raced) {
    TuneResult raced = result;
    raced.choices = with_slimmed(std::move(raced.choices), bench.fallback().compiled);
    if (options.objective.weighs_memory()) note_memory(bench, *bench.build(raced.choices), raced);
    options.raced(raced);
  }
  if (options.graph_best) result.graph_left_out = left_out(options, budget.end_ms, !result.refused.empty());
  if (options.graph_best && result.graph_left_out.empty()) {
    log.tell(search.trials(), PhaseEvent{"choosing"});
    choose_graph_best(bench, search, records, options, budget.graph_seconds, budget.end_ms, result);
  }
  result.choices = with_slimmed(std::move(result.choices), bench.fallback().compiled);
  result.history = with_slimmed(std::move(result.history), bench.fallback().compiled);
  const auto accepted = bench.build(result.choices);
  note_speeds(search, bench.fallback(), *accepted, result);
  note_memory(bench, *accepted, result);
  at.end = now_ms();
  result.restarts = bench.runner().restarts();
  result.confined = bench.runner().confined();
  result.conditions = search.conditions_of_runs();
  result.seconds = (at.end - start) / 1e3;
  result.trials_per_second = static_cast<double>(search.trials()) / std::max(1e-9, (at.searched - at.prepared) / 1e3);
  result.phases = phases(search, at, result.graph_left_out.empty() && options.graph_best);
  result.trace = log.finish();
  if (options.progress) options.progress(of_races(search.progress("done"), result));
  return result;
}

}  // namespace kilter::tune
