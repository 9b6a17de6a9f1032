// kilter tune: measures schedules where they run, and keeps what is faster.

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "tune/tuner/choices_file.h"
#include "tune/tuner/tuner.h"
#include "tuning.h"

namespace kilter::tool {
namespace {

using namespace kilter::tune;

struct TuneCommand {
  ModelOptions model;
  std::string time = "5min", searcher = "model", json, write_plan;
  std::vector<std::string> searcher_options, ops;
  int64_t trials = 0, early_stopping = 0;
  double until = 100, timeout_ms = 1000;
  bool plain = false;
};

std::atomic<bool> interrupted_by_user = false;

/// Seconds of "5min", "90s", "1h", "2.5min", "90".
double parse_seconds(const std::string& text, const std::string& option) {
  constexpr std::pair<std::string_view, double> kUnits[] = {{"min", 60}, {"h", 3600}, {"s", 1}, {"m", 60}, {"", 1}};
  for (const auto& [unit, seconds] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const auto number = try_parse_float(trim(std::string_view(text).substr(0, text.size() - unit.size())));
    if (number && *number > 0 && *number * seconds <= 7 * 86400.0) return *number * seconds;
  }
  fail(ErrorKind::usage, "{} {}: expected a time such as 90s, 5min or 1h, above 0 and at most 7 days", option, text);
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string progress_line(const TuneProgress& p) {
  return fmt::format("{}: {:.0f} of {:.0f} s, {} trials, {:.3f} ms -> {:.3f} ms ({:.3f}), {} expected to be left",
                     p.phase, p.seconds, p.budget_seconds, p.trials, p.default_ms, p.predicted_ms,
                     p.predicted_ms / p.default_ms, percent(p.remaining));
}

nlohmann::json result_json(const TuneResult& r) {
  nlohmann::json out{{"default_ms", to_json(r.default_ms)},
                     {"tuned_ms", to_json(r.tuned_ms)},
                     {"ratio", to_json(r.ratio)},
                     {"same_plan", r.same_plan},
                     {"rounds", r.rounds},
                     {"trials", r.trials},
                     {"failures", r.failures},
                     {"restarts", r.restarts},
                     {"seconds", r.seconds},
                     {"trials_per_second", r.trials_per_second},
                     {"regret", r.regret},
                     {"winner_flips", r.flips},
                     {"fidelity", r.fidelity},
                     {"stopped_because", r.stopped_because}};
  if (r.graph) out["graph"] = to_json(*r.graph);
  if (r.has_previous) out["previous"] = to_json(r.previous);
  for (const PhaseTime& p : r.phases) out["phases"].push_back({{"phase", p.phase}, {"seconds", p.seconds}});
  for (const TunedTask& t : r.tasks) {
    out["tasks"].push_back({{"problem", t.problem},
                            {"layouts", t.layouts},
                            {"nodes", t.nodes},
                            {"share", t.share},
                            {"default", t.fallback},
                            {"schedule", t.schedule},
                            {"predicted", to_json(t.predicted)},
                            {"in_network", to_json(t.in_network)},
                            {"tried", t.tried},
                            {"size", t.size},
                            {"failures", t.failures},
                            {"space", t.space}});
  }
  for (const auto& [node, choice] : r.choices) out["choices"][node] = text(choice);
  return out;
}

void print_result(const TuneResult& r, const TuneCommand& command, const std::string& records) {
  fmt::print("{} in {:.1f} s: {} trials ({:.0f} a second), {} failed, {} workers replaced; stopped: {}\n",
             command.model.model, r.seconds, r.trials, r.trials_per_second, r.failures, r.restarts, r.stopped_because);
  if (r.same_plan) {
    fmt::print("before {:.4f} ms; nothing that was tried is faster in the network: the default plan stays\n",
               r.default_ms.value);
  } else {
    fmt::print("before {:.4f} ms, after {:.4f} ms; after / before {} in {} paired rounds\n", r.default_ms.value,
               r.tuned_ms.value, ratio_text(r.ratio), r.rounds);
  }
  if (r.has_previous) fmt::print("after / what earlier records give {}\n", ratio_text(r.previous));
  if (r.graph) fmt::print("{}", graph_text(*r.graph));
  fmt::print(
      "expected to be left {}; winners that changed in the races {}; layers predicted {:.3f} of what the races found\n",
      percent(r.regret), percent(r.flips), r.fidelity);
  std::string phases;
  for (const PhaseTime& p : r.phases)
    phases += fmt::format("{}{} {:.1f} s", phases.empty() ? "" : ", ", p.phase, p.seconds);
  fmt::print("time: {}\n", phases);
  fmt::print("{:>6} {:>7} {:>7} {:>9} {:>6}  {}\n", "share", "layer", "race", "tried", "layers", "problem | schedule");
  for (const TunedTask& t : r.tasks) {
    const bool changed = t.schedule != t.fallback;
    fmt::print("{:>6} {:>7} {:>7} {:>9} {:>6}  {} | {}\n", percent(t.share),
               changed ? fmt::format("{:.3f}", t.predicted.value) : "-",
               changed ? fmt::format("{:.3f}", t.in_network.value) : "-", fmt::format("{}/{}", t.tried, t.size),
               t.nodes.size(), t.problem, changed ? t.schedule : "default: " + t.fallback);
  }
  fmt::print("records: {}\n", records);
}

void run_tune(const TuneCommand& command) {
  Progress progress("tune " + command.model.model);
  TuneOptions options;
  options.seconds = parse_seconds(command.time, "--time");
  options.trials = command.trials, options.early_stopping = command.early_stopping;
  options.until = command.until / 100;
  options.search = parse_search_options(command.searcher, command.searcher_options);
  options.ops = command.ops;
  options.runner.timeout_ms = command.timeout_ms;
  progress.show("preparing");
  TuningSetup setup(command.model, "tune");
  options.threads = setup.threads;
  options.network = setup.session->name();
  options.program = version_text();
  options.device = setup.device;
  options.known = setup.known;
  options.records = setup.file;
  options.graph_best = command.model.choose == "graph-best";
  if (setup.store != nullptr) options.keep = [&](std::span<const Record> records) { setup.store->append(records); };
  double last = 0;
  options.progress = [&](const TuneProgress& p) {
    if (!command.plain) return progress.show(progress_line(p));
    if (p.seconds - last < 2 && p.phase == "searching") return;
    last = p.seconds;
    fmt::print(stderr, "{}\n", progress_line(p));
  };
  std::signal(SIGINT, [](int) { interrupted_by_user = true; });
  options.interrupted = [] { return interrupted_by_user.load(); };
  const TuneResult result = tune::tune(setup.graph, setup.inputs, setup.compile(), options);
  if (result.graph) keep(setup, *result.graph, result.history);
  progress.clear();
  if (!command.write_plan.empty()) {
    const std::string notes =
        fmt::format("{} for {} on {} threads, tuned {} in {:.0f} s; {}", command.model.model,
                    setup.compile().target.name, options.threads, iso_date(), result.seconds, version_text());
    write_text("--write-plan", command.write_plan, text(result.choices, notes));
  }
  if (!command.json.empty()) write_text("--json", command.json, result_json(result).dump(2) + "\n");
  if (command.json != "-") print_result(result, command, setup.file.empty() ? "none kept" : setup.file);
}

}  // namespace

void add_tune(CLI::App& app, Context&) {
  auto command = std::make_shared<TuneCommand>();
  CLI::App* sub = app.add_subcommand("tune", "Find faster schedules for a network by measuring them where they run");
  command->model.records = "default", command->model.choose = "graph-best";
  command->model.add_to(*sub);
  sub->add_option("--time", command->time, "budget, such as 90s, 5min or 1h, races at the end included")
      ->capture_default_str();
  sub->add_option("--trials", command->trials, "stop the search after so many trials; 0: no limit")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  sub->add_option("--early-stopping", command->early_stopping,
                  "stop the search after so many trials without a gain in any task; 0: never")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  sub->add_option("--until", command->until,
                  "stop when this many percent of the speed that is expected to be found is there")
      ->check(CLI::Range(50.0, 100.0))
      ->capture_default_str();
  sub->add_option("--searcher", command->searcher, "what proposes schedules; `kilter options` lists searchers")
      ->capture_default_str();
  sub->add_option("--searcher-option", command->searcher_options, "NAME=VALUE; `kilter options` lists them");
  sub->add_option("--ops", command->ops,
                  "tune only tasks of these kinds, the first word of their problems: conv2d, matmul")
      ->delimiter(',');
  sub->add_option("--timeout", command->timeout_ms,
                  "milliseconds after which a layer that does not end counts as failed")
      ->check(CLI::Range(10.0, 600000.0))
      ->capture_default_str();
  sub->add_option("--write-plan", command->write_plan,
                  "also write the schedule of each tuned layer to a file, for --layer-plan of other commands");
  sub->add_flag("--plain", command->plain, "progress as lines, for logs");
  sub->add_option("--json", command->json,
                  "also write the outcome as JSON to a file; - is standard output, which then holds nothing else");
  sub->footer(
      "Every trial is kept as it is made; the same command again goes on where this one ended. Ctrl-C ends the search\n"
      "and still checks what was found. What is accepted was faster in whole runs of the network, in pairs.");
  sub->callback([command] { run_tune(*command); });
}

}  // namespace kilter::tool
