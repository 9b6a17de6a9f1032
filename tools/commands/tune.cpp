// kilter tune: measures schedules in the running network and keeps the faster ones.

#include <fmt/ranges.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/other_threads.h"
#include "base/text.h"
#include "fleet.h"
#include "profile/bounds.h"
#include "profile/report/tuning_report.h"
#include "record_keeper.h"
#include "tune/records/place.h"
#include "tune/tuner/plans/apply.h"
#include "tune/tuner/plans/choices_file.h"
#include "tune/tuner/search/learned.h"
#include "tune/tuner/tune_json.h"
#include "tune/tuner/tuner.h"
#include "tune/tuner/undecided.h"
#include "tune_view.h"
#include "tuning.h"

namespace kilter::tool {
namespace {

using namespace kilter::tune;

struct TuneCommand {
  ModelOptions model;
  std::string objective = "latency", time = "5min", timeout = "1000ms", searcher = "model", cost_model = "shipped",
              json, html, events, write_plan, until = "100%";
  std::vector<std::string> searcher_options, ops;
  int64_t trials = 0, early_stopping = 0;
  TrialOptions trial;
  FleetOptions fleet;
  bool plain = false, time_given = false, cost_model_given = false;
};

std::atomic<bool> interrupted_by_user = false;

using Unit = std::pair<std::string_view, double>;

/// Parses a number with one of these units and returns the product. The first unit that matches counts.
std::optional<double> with_unit(const std::string& text, std::span<const Unit> units) {
  for (const auto& [unit, factor] : units) {
    if (!text.ends_with(unit)) continue;
    const auto number = try_parse_float(trim(std::string_view(text).substr(0, text.size() - unit.size())));
    if (number) return *number * factor;
  }
  return std::nullopt;
}

/// Parses "5min", "90s", "1h", "2.5min" or "90" to seconds.
double parse_seconds(const std::string& text, const std::string& option) {
  constexpr Unit kUnits[] = {{"min", 60}, {"h", 3600}, {"s", 1}, {"m", 60}, {"", 1}};
  const auto seconds = with_unit(text, kUnits);
  if (seconds && *seconds > 0 && *seconds <= 7 * 86400.0) return *seconds;
  fail(ErrorKind::usage, "{} {}: expected a time such as 90s, 5min or 1h, above 0 and at most 7 days", option, text);
}

/// Parses "500ms", "10s" or "500" to milliseconds.
double parse_milliseconds(const std::string& text, const std::string& option) {
  constexpr Unit kUnits[] = {{"ms", 1}, {"s", 1000}, {"", 1}};
  const auto ms = with_unit(text, kUnits);
  if (ms && *ms >= 10 && *ms <= 600000) return *ms;
  fail(ErrorKind::usage, "{} {}: expected a time from 10ms to 600s such as 500ms or 10s; a bare number is milliseconds",
       option, text);
}

/// Parses "98%" or "98" to 0.98.
double parse_share(const std::string& text, const std::string& option) {
  constexpr Unit kUnits[] = {{"%", 1}, {"", 1}};
  const auto percent = with_unit(text, kUnits);
  if (percent && *percent >= 50 && *percent <= 100) return *percent / 100;
  fail(ErrorKind::usage, "{} {}: expected a share from 50% to 100% such as 98%; a bare number is percent", option,
       text);
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

/// Writes events as they happen, one JSON object per line.
class EventFile {
 public:
  explicit EventFile(const std::string& where) : where_(where) {
    if (where_.empty() || where_ == "-") return;
    check_writable("--events", where_);
    file_.open(where_, std::ios::trunc);
  }
  void write(const nlohmann::json& event) {
    if (where_.empty()) return;
    const std::string line = json_text(event) + "\n";
    if (where_ != "-") {
      file_ << line << std::flush;
      return;
    }
    say("{}", line);
    std::fflush(console().out);
  }
  /// Throws io if something could not be written. A full disk does not end the tuning.
  void close() {
    if (file_.is_open() && !file_)
      fail(ErrorKind::io, "--events {}: the file is incomplete, because it could not be written completely", where_);
  }

 private:
  std::string where_;
  std::ofstream file_;
};

/// Returns everything about a run, as --json writes it and --html draws it.
nlohmann::json whole_json(const TuneResult& result, const TuneOptions& options, const std::string& model) {
  nlohmann::json out = to_json(result);
  out["model"] = model;
  out["settings"] = start_json(options);
  out["settings"].erase("event");
  out["trace"] = to_json(result.trace);
  return out;
}

/// Returns whether some output of the run replaces the summary on standard output. Throws usage if several do.
bool takes_stdout(const TuneCommand& command) {
  std::vector<std::string> all;
  for (const auto& [option, where] :
       {std::pair{"--json", &command.json}, {"--html", &command.html}, {"--events", &command.events}}) {
    if (*where == "-") all.emplace_back(option);
  }
  if (all.size() > 1)
    fail(ErrorKind::usage, "{} -: standard output can hold only one of them; give a file for the others",
         fmt::join(all, " - and "));
  return !all.empty();
}

/// Describes the outcome for the network in one line. `keeps`: whether the trials are in a file of records.
std::string outcome_text(const TuneResult& r, const std::string& model, bool keeps) {
  if (r.tasks.empty()) {
    return fmt::format("before {:.4f} ms; nothing here can be tuned; `kilter tasks {}` says why, node by node\n",
                       r.default_ms.value, model);
  }
  if (!r.unheld.empty()) {
    return fmt::format("before {:.4f} ms; the race of whole networks could not be held, so no plan is accepted: {}\n",
                       r.default_ms.value, r.unheld);
  }
  if (!r.refused.empty())
    return fmt::format("before {:.4f} ms; the plan that won the race is not accepted: {}\n", r.default_ms.value,
                       r.refused);
  if (const std::string undecided = undecided_text(r); !undecided.empty()) {
    return fmt::format("before {:.4f} ms; {}: the {} plan stays; end other programs and tune again{}\n",
                       r.default_ms.value, undecided, r.same_plan ? "default" : "previous",
                       keeps ? ", which continues from the records" : "");
  }
  if (r.same_plan) {
    return fmt::format("before {:.4f} ms; no schedule that was tried makes the network {}: the default plan stays\n",
                       r.default_ms.value, r.objective.weighs_memory() ? "better by " + text(r.objective) : "faster");
  }
  if (r.kept) {
    return fmt::format(
        "before {:.4f} ms; no schedule that was tried beats the previous plan, which stays: {:.4f} ms, {} of the "
        "default's time in {} paired rounds\n",
        r.default_ms.value, r.tuned_ms.value, ratio_text(r.ratio), r.rounds);
  }
  return fmt::format("before {:.4f} ms, after {:.4f} ms; after / before {} in {} paired rounds\n", r.default_ms.value,
                     r.tuned_ms.value, ratio_text(r.ratio), r.rounds);
}

/// Describes the memory of the default plan and of the accepted one, and their score if memory has a weight.
std::string memory_text(const TuneResult& r) {
  const PlanMemory &before = r.default_memory, &after = r.tuned_memory;
  const auto mb = [](int64_t bytes) { return static_cast<double>(bytes) * 1e-6; };
  std::string out = fmt::format(
      "memory before {:.3f} MB, after {:.3f} MB; after / before {:.4f}: packed weights {:.3f} -> {:.3f} MB, arena "
      "{:.3f} -> {:.3f} MB, scratch {:.3f} -> {:.3f} MB, code {:.3f} -> {:.3f} MB\n",
      mb(before.bytes()), mb(after.bytes()), r.bytes_ratio(), mb(before.weights), mb(after.weights), mb(before.arena),
      mb(after.arena), mb(before.scratch), mb(after.scratch), mb(before.code), mb(after.code));
  if (r.objective.weighs_memory())
    out += fmt::format("score by {}: after / before {}\n", text(r.objective), ratio_text(r.score()));
  return out;
}

/// Describes the starting point of the search, and the failed trials.
std::string search_text(const TuneResult& r) {
  std::string out;
  if (const EarlierRecords& e = r.earlier; e.all > 0) {
    out += fmt::format(
        "earlier records: {} of {} match these conditions and count as trials; {} task{} began with a schedule from "
        "another record\n",
        e.here, e.all, e.advised, e.advised == 1 ? "" : "s");
  }
  for (const auto& [status, f] : r.failed)
    out += fmt::format("{} {}, first in task {} with {}: {}\n", f.count, name(status), f.task, f.schedule, f.error);
  return out;
}

/// Describes the plans that were raced, and the graph tuner's result.
std::string races_text(const TuneResult& r) {
  std::string out;
  if (r.rejected) {
    const char* why = !r.refused.empty()            ? "refused"
                      : !r.unheld.empty()           ? "its last race could not be held"
                      : r.rejected->ratio.high <= 1 ? "not certainly faster than the previous plan"
                                                    : "not certainly faster";
    out += fmt::format(
        "found: a plan that changes {} layers, {:.4f} ms, {} of the default's time in {} paired rounds; it is not "
        "accepted: {}\n",
        r.rejected->layers, r.rejected->ms.value, ratio_text(r.rejected->ratio), r.rejected->rounds, why);
  }
  if (r.previous) out += fmt::format("after / the previous plan {}\n", ratio_text(*r.previous));
  if (r.graph) out += graph_text(*r.graph);
  if (!r.graph_left_out.empty()) out += fmt::format("graph tuner: left out: {}\n", r.graph_left_out);
  return out;
}

/// Describes the gain that may still be found, and how the time was spent.
std::string course_text(const TuneResult& r) {
  std::string phases;
  for (const PhaseTime& p : r.phases)
    phases += fmt::format("{}{} {:.1f} s", phases.empty() ? "" : ", ", p.phase, p.seconds);
  return fmt::format(
      "estimated further gain {}, of which {} in as much time again; the races changed the winners of {} of the tasks; "
      "the time predicted from the layers is {:.3f} times that measured in the race\ntime: {}; candidates were "
      "compiled {}\nsystem calls of candidates: {}\n",
      percent(r.regret), percent(r.as_long_again), percent(r.flips), r.fidelity, phases, r.building,
      r.confined ? "confined (seccomp)" : "not confined, because this system has no seccomp filters");
}

std::string tasks_text(const TuneResult& r) {
  std::string out = fmt::format("{:>4} {:>6} {:>7} {:>7} {:>9} {:>6}  {}\n", "task", "share", "layer", "race", "tried",
                                "layers", "problem | schedule");
  for (const TunedTask& t : r.tasks) {
    const bool changed = t.schedule != t.fallback;
    out += fmt::format("{:>4} {:>6} {:>7} {:>7} {:>9} {:>6}  {} | {}{}\n", t.number, percent(t.share),
                       changed ? fmt::format("{:.3f}", t.predicted.value) : "-",
                       changed ? fmt::format("{:.3f}", t.in_network.value) : "-", fmt::format("{}/{}", t.tried, t.size),
                       t.nodes.size(), t.problem, changed ? t.schedule : "default: " + t.fallback,
                       t.otherwise > 0 ? fmt::format("; {} of its layers differ", t.otherwise) : "");
  }
  return out;
}

/// Returns the commands that use the accepted plan, with the options that it was tuned for.
std::string use_text(const ModelOptions& model) {
  const std::string use = use_arguments(model);
  return fmt::format("use it:  kilter run {}\n         kilter compile {} -o {}\n", use, use,
                     shell_word(compiled_name(model.model)));
}

/// Says where the network ran, if that was another machine.
std::string fleet_text(const FleetMeasurement& there) {
  if (there.machine.agent.empty()) return "";
  return fmt::format("measured by agents of the device class {} ({}); waiting for them and transfers: {:.1f} s\n",
                     there.machine.device_class, there.machine.device, there.overhead_ms / 1e3);
}

void print_result(const TuneResult& r, const TuneCommand& command, const std::string& kept, const TuningSetup& setup,
                  const FleetMeasurement& there) {
  std::string out = quiet_text(r.conditions) + "\n", use;
  out += fmt::format(
      "{} in {:.1f} s: {} trials ({:.0f} a second) of {} new schedules, {} failed, {} workers replaced; stopped: {}\n",
      command.model.model, r.seconds, r.trials, r.trials_per_second, r.first_trials, r.failures, r.restarts,
      r.stopped_because);
  out += fleet_text(there);
  const bool verbose = console().detail == Detail::verbose;
  if (verbose) out += search_text(r);
  out += outcome_text(r, command.model.model, !setup.file.empty());
  if (r.objective.weighs_memory() || verbose) out += memory_text(r);
  if (!r.given_up.empty()) out += fmt::format("the previous plan is dropped: {}\n", r.given_up);
  if (!r.graph_failed.empty()) out += fmt::format("graph tuner: failed, history-best stays: {}\n", r.graph_failed);
  if (verbose) out += races_text(r) + course_text(r) + tasks_text(r);
  out += kept;
  if (setup.file.empty()) {
    out += "records: none kept\n";
  } else {
    const std::optional<KeptPlan> plan = kept_plan(setup);
    out += fmt::format("records: {}{}\n", shown(setup.file), kept.empty() ? ", with the accepted plan next to it" : "");
    if (plan && !plan->choices.empty()) use = use_text(command.model);
  }
  say_fitted(printable_lines(out));
  say("{}", printable_lines(use));
}

/// Reads the options of the command line, before the network is opened. Throws usage. Throws io for a file that cannot
/// be written, so that the error comes before minutes of work.
TuneOptions options_of(const TuneCommand& command) {
  TuneOptions options;
  options.objective = parse_objective(command.objective);
  const bool by_trials = command.trials > 0 || command.early_stopping > 0;  // then --time has no default
  if (!command.time_given && by_trials) {
    options.seconds = std::numeric_limits<double>::infinity();
  } else {
    options.seconds = parse_seconds(command.time, "--time");
  }
  options.trials = command.trials, options.early_stopping = command.early_stopping;
  options.until = parse_share(command.until, "--until");
  options.search = parse_search_options(command.searcher, command.searcher_options);
  if (command.cost_model_given) check_cost_model(command.cost_model, {command.searcher});
  options.cost_model = command.cost_model;
  options.ops = command.ops;
  options.trial = command.trial;
  options.trial.timeout_ms = parse_milliseconds(command.timeout, "--timeout");
  options.program = version_text();
  options.graph_best = command.model.choose == "graph-best";
  command.fleet.check();
  check_writable("--json", command.json);
  check_writable("--html", command.html);
  check_writable("--write-plan", command.write_plan);
  return options;
}

void write_files(const TuneCommand& command, const TuneResult& result, const TuneOptions& options,
                 const std::string& target) {
  if (!command.write_plan.empty()) {
    const std::string notes = fmt::format("{} for {} on {}, tuned {} in {:.0f} s; {}", command.model.model, target,
                                          threads_text(options.threads), iso_date(), result.seconds, version_text());
    write_text("--write-plan", command.write_plan, text(result.choices, notes));
  }
  const nlohmann::json whole = whole_json(result, options, command.model.model);
  if (!command.json.empty()) write_json(command.json, whole);
  if (!command.html.empty()) write_text("--html", command.html, profile::html_tuning_report(whole));
}

/// Keeps the accepted plan. Sets `fault` to the reason if that fails; it is reported after everything else.
std::string try_to_keep(const TuningSetup& setup, const TuneResult& result, std::optional<KeptPlan>& before,
                        std::string& fault) {
  try {
    return keep(setup, result, before);
  } catch (const Error& e) {
    fault = e.message();
    return {};
  }
}

/// Sets the functions that compute the lower bound of a plan's steps in milliseconds, from peaks that `measure`
/// returns.
void set_bounds(TuneOptions& options, const std::function<Peaks(int threads)>& measure) {
  const int threads = options.threads;
  const auto peaks = std::make_shared<Peaks>(measure(threads));
  options.bound = [peaks, threads](const Plan& plan, const std::vector<size_t>& steps) {
    return profile::bound_ms(plan, steps, *peaks, threads);
  };
  options.better_bound = [peaks, threads, measure] { *peaks = better(*peaks, measure(threads)); };
}

/// Records the first SIGINT or SIGTERM; a second one ends the program. Trials are kept as they are made.
void end_at_signals() {
  for (const int ends : {SIGINT, SIGTERM}) {
    std::signal(ends, [](int signal) {
      interrupted_by_user = true;
      std::signal(signal, SIG_DFL);
    });
  }
}

/// Runs work whose failure must not stop the rest, such as writing records, files or events to a full disk, and notes
/// the error.
void note_fault(std::vector<std::string>& faults, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    faults.push_back(e.message());
  }
}

void run_tune(const TuneCommand& command) {
  const bool quiet = takes_stdout(command);
  TuneOptions options = options_of(command);
  const auto cost_model = load_points(command.cost_model);
  options.pretrained = cost_model.get();
  EventFile events(command.events);
  TuneView view("tune " + command.model.model, command.plain);
  view.show("preparing");
  ModelOptions model = command.model;
  FleetMeasurement there;
  const bool on_fleet = !command.fleet.url.empty();
  if (on_fleet) there.machine = machine_for(command.fleet, model);
  TuningSetup setup(model);
  check_write_plan(setup, command.write_plan);
  if (on_fleet) {
    measure_on_fleet(command.fleet, options, there);
    setup.device = there.machine.device;
  }
  options.threads = setup.threads;
  options.network = setup.session->name();
  options.device = setup.device;
  options.known = setup.known;
  options.records = setup.file;
  std::optional<KeptPlan> before = kept_plan(setup);
  if (before) options.previous = before->choices;
  std::string unkept;  // why something could not be written, which does not end the tuning
  std::optional<RecordKeeper> keeper;
  if (setup.store != nullptr) {
    keeper.emplace(*setup.store, [&](const std::string& line) {
      view.clear();
      say_error("{}\n", line);
    });
    options.keep = [&](std::span<const Record> records) { keeper->keep(records); };
  }
  options.event = [&](const TuneEvent& event) { events.write(to_json(event)); };
  options.progress = [&](const TuneProgress& p) {
    view.show(p);
    if (p.phase != "done") events.write(to_json(p));  // the event `end` reports it
  };
  set_bounds(options, on_fleet ? there.peaks : measure_peaks);
  options.interrupted = console().stopped;
  if (!options.interrupted) {
    end_at_signals();
    options.interrupted = [] { return interrupted_by_user.load(); };
  }
  events.write(start_json(options));
  std::string kept;
  options.raced = [&](const TuneResult& raced) { kept = try_to_keep(setup, raced, before, unkept); };
  const TuneResult result = tune::tune(setup.network.whole, setup.network.inputs, setup.compile(), options);
  if (result.graph && result.graph->won) kept = try_to_keep(setup, result, before, unkept);
  std::vector<std::string> faults;
  if (!unkept.empty()) faults.push_back(unkept);
  if (const std::string lost = keeper ? keeper->finish() : ""; !lost.empty()) faults.push_back(lost);
  view.clear();
  nlohmann::json end = to_json(result);
  end["event"] = "end";
  events.write(end);
  if (!quiet) print_result(result, command, kept, setup, there);
  note_fault(faults, [&] {
    write_files(command, result, options, setup.compile().target.name);
    if (!quiet) confirm_report(command.html);
  });
  note_fault(faults, [&] { events.close(); });
  if (!faults.empty()) fail(ErrorKind::io, "{}", fmt::join(faults, "\n"));
}

/// Adds the options that say how a trial is measured.
void add_trial_options(Command app, TuneCommand& command) {
  TrialOptions& trial = command.trial;
  const auto meaning = [](std::string_view name) {
    const auto rows = all_trial_options();
    return std::string(std::ranges::find(rows, name, &TrialOptionRow::name)->meaning);
  };
  app.heading("Trials", true);
  app.option("--number", trial.number, meaning("number")).range(1, 1000).shows_default();
  app.option("--repeat", trial.repeat, meaning("repeat")).range(0, 1000).shows_default();
  app.option("--min-repeat-ms", trial.min_repeat_ms, meaning("min-repeat-ms")).range(0.0, 10000.0).shows_default();
  app.option("--timeout", command.timeout, meaning("timeout")).value("TIME").shows_default();
  app.option("--n-parallel", trial.n_parallel, meaning("n-parallel")).range(0, 1024).shows_default();
}

void add_budget(Command app, const std::shared_ptr<TuneCommand>& command) {
  app.heading("Budget");
  app.option(
         "--time", command->time,
         "time budget including the races at the end, such as 90s, 5min or 1h (default: 5min, or no limit if --trials "
         "or --early-stopping ends the search)")
      .value("TIME")
      .on_value([command] { command->time_given = true; });
  app.option("--trials", command->trials,
             "stop the search after this many trials, including failed ones, or when --time is up; 0: no limit")
      .range(int64_t{0}, int64_t{1'000'000'000})
      .shows_default();
  app.option("--early-stopping", command->early_stopping,
             "stop the search after this many trials without a gain in any task, or when --time is up; 0: never")
      .range(int64_t{0}, int64_t{1'000'000'000})
      .shows_default();
  app.option("--until", command->until, "stop when this share of the expected final speed is reached, such as 98%")
      .value("SHARE")
      .shows_default();
}

void add_search(Command app, const std::shared_ptr<TuneCommand>& command) {
  app.heading("Search");
  app.option("--objective", command->objective,
             "what to minimise: latency; memory: packed weights, arena, temporaries and code; or both, with weights in "
             "percent, such as latency:80,memory:20")
      .value("WHAT")
      .suggests({"latency", "memory"})
      .shows_default();
  app.option("--ops", command->ops, "tune only tasks of these kinds, the first word of their problems: conv2d, matmul")
      .delimiter(',')
      .value("KIND");
  app.option("--records", command->model.records,
             "where trials are recorded and where the search finds earlier ones: a file, "
             "postgresql://USER@HOST/DATABASE, default or none")
      .file()
      .suggests({"default", "none"})
      .shows_default();
  app.option("--choose", command->model.choose,
             "graph-best: run the graph tuner at the end and race its plan, too; history-best: do not")
      .one_of({"graph-best", "history-best"})
      .shows_default();
  std::vector<std::string> searchers;
  for (const SearcherRow& row : all_searchers()) searchers.emplace_back(row.name);
  app.option("--searcher", command->searcher, "searcher that proposes schedules; `kilter options` lists them")
      .value("WORD")
      .suggests(std::move(searchers))
      .shows_default();
  app.heading("Search", true);
  app.option("--searcher-option", command->searcher_options,
             "option of the searcher, as NAME=VALUE; `kilter options` lists them")
      .value("NAME=VALUE");
  app.option("--cost-model", command->cost_model,
             "cost model that the searcher `model` starts from, in addition to the analytic estimate: a file written "
             "by `kilter cost-model train`, shipped or none")
      .file()
      .suggests({"shipped", "none"})
      .shows_default()
      .on_value([command] { command->cost_model_given = true; });
}

void add_output(Command app, TuneCommand& command) {
  app.heading("Output");
  app.flag("--plain", command.plain,
           "print progress as lines, for logs: one every two seconds, and one for each task that becomes faster; "
           "the default if standard error is not a terminal");
  app.option("--write-plan", command.write_plan,
             "also write the schedule of each tuned layer to a file, for --layer-plan of other commands")
      .file();
  app.json(command.json, "the outcome");
  app.option("--html", command.html,
             "also write an HTML report of the run (course, trials, tasks, races): one file that works offline")
      .file();
  app.option("--events", command.events,
             "also write events as they happen, one JSON object per line (doc/tuning.md), to a file; - for standard "
             "output, which then contains nothing else")
      .file();
}

}  // namespace

void add_tune(Command app, Context&) {
  auto command = std::make_shared<TuneCommand>();
  Command sub = app.subcommand("tune", "Find faster schedules for a network by measuring them where they run");
  sub.group("Tune");
  command->model.records = "default", command->model.choose = "graph-best";
  command->model.add_model_to(sub, false);
  add_budget(sub, command);
  add_search(sub, command);
  add_trial_options(sub, *command);
  command->fleet.add_to(sub);
  add_output(sub, *command);
  command->model.add_compile_to(sub);
  sub.footer(
      "Trials are kept batch by batch; running the same command again continues where this run ended. Ctrl-C (SIGINT) "
      "or SIGTERM ends the search; the plan found so far is then raced for a few seconds. A second signal ends the "
      "program immediately, and the previously accepted plan stays. A plan is accepted if it was faster in paired "
      "whole runs of the network. With --verbose, the report also has failures, races, the graph tuner, where the "
      "time went, and each task.");
  sub.example("kilter tune zoo:squeezenet1_1 --time 5min --threads 1", "Tune for five minutes, for one thread");
  sub.example("kilter run zoo:squeezenet1_1 --threads 1 --records default", "Use what was found");
  sub.example(
      "kilter tune zoo:squeezenet1_1 --time 5min --fleet postgresql://db.example.com/tuning --sign-key team.secret",
      "Measure on an agent that trusts team.public");
  sub.callback([command] { run_tune(*command); });
}

}  // namespace kilter::tool
