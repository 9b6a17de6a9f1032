// kilter graph-tune: chooses for each layer the alternative that is best for the whole network.

#include <nlohmann/json.hpp>

#include "base/columns.h"
#include "base/other_threads.h"
#include "base/text.h"
#include "compile/tasks.h"
#include "terminal.h"
#include "tune/records/match.h"
#include "tune/tuner/plans/apply.h"
#include "tune/tuner/plans/choices_file.h"
#include "tune/tuner/race/reference_check.h"
#include "tune/tuner/tune_json.h"
#include "tuning.h"

namespace kilter::tool {
namespace {

using namespace kilter::tune;

struct GraphTuneCommand {
  ModelOptions model;
  std::string solver = "auto", write_plan, json;
  double measure = 8, race = 10;
  size_t schedules = 4;
  bool measure_transforms = false, no_run = false, layers = false;
};

GraphBest answer(const TuningSetup& setup, const Choices& history, const GraphTuneOptions& options) {
  RunnerOptions runner;
  runner.inputs = setup.network.inputs, runner.threads = setup.threads;
  NetworkBench bench(setup.network.whole, setup.compile(), std::move(runner));
  require_right(check_default(bench));
  return graph_best(bench, setup.known, history, options);
}

GraphBest answer_of_records(const TuningSetup& setup, const Choices& history, const GraphTuneOptions& options) {
  CompileOptions look = setup.compile();
  look.contents.code = false, look.contents.tasks = true;
  return graph_best_of_records(compile_graph(setup.network.whole, look), look, setup.known, history, options);
}

void print_layers(const GraphBest& best) {
  constexpr size_t kHanging = 4;
  const std::vector<size_t> chosen = indices(best.network, best.choices);
  for (size_t l = 0; l < chosen.size(); ++l) {
    const Layer& layer = best.network.layers[l];
    for (size_t a = 0; a < layer.alternatives.size() && layer.task(); ++a) {
      const Alternative& one = layer.alternatives[a];
      const std::string line =
          fmt::format("{} {:9.4f} +- {:.4f} ms  {} | {} ({})", a == chosen[l] ? "*" : " ", one.ms, one.error_ms,
                      printable(layer.node), a == 0 ? "default: " + layer.schedule : text(one.choice), one.basis);
      say("{}\n", hanging(line, kHanging, terminal_columns().value_or(0)));
    }
  }
}

void run_graph_tune(const GraphTuneCommand& command) {
  check_writable("--json", command.json);
  check_writable("--write-plan", command.write_plan);
  const TuningSetup setup(command.model, !command.no_run);
  check_write_plan(setup, command.write_plan);
  GraphTuneOptions options;
  options.threads = setup.threads, options.device = setup.device, options.records = setup.file;
  options.measure_anew = command.measure_transforms;
  options.measure_seconds = command.measure, options.race_seconds = command.race;
  options.schedules = command.schedules, options.solver = parse_solver(command.solver);
  options.check = [](NetworkBench& bench, const Choices& choices) { return checked(check_choices, bench, choices); };
  Choices history = history_best_choices(setup.network.whole, setup.compile(), setup.known,
                                         {setup.file, setup.device, setup.threads});
  const std::optional<KeptPlan> before = kept_plan(setup);
  if (before) options.accepted = before->choices;
  options.keeps_history = !before;
  const GraphBest best = command.no_run ? answer_of_records(setup, history, options) : answer(setup, history, options);
  for (const ReferenceCheck* check : {&best.check, &best.history_check}) bar_wrong(setup, *check);
  const size_t layers = history.size();
  if (!best.history_stands()) history.clear();
  const bool taken = best.won || command.no_run;
  const Choices& chosen = taken ? best.choices : before ? before->choices : history;
  const std::string kept = command.no_run ? "" : keep(setup, best, history, before);
  if (!command.write_plan.empty()) {
    const std::string notes = fmt::format("{} for {} on {}, {} {}; {}", command.model.model,
                                          setup.compile().target.name, threads_text(setup.threads),
                                          taken             ? "graph-best"
                                          : before          ? "the accepted plan"
                                          : history.empty() ? "the default plan"
                                                            : "history-best",
                                          iso_date(), version_text());
    write_text("--write-plan", command.write_plan, text(chosen, notes));
  }
  if (!command.json.empty()) write_json(command.json, to_json(best));
  if (command.json == "-") return;
  say("{} on {}; history-best has schedules for {} layers\n{}", command.model.model, threads_text(setup.threads),
      layers, graph_text(best));
  say("{}", kept);
  if (command.layers) print_layers(best);
}

}  // namespace

void add_graph_tune(Command app, Context&) {
  auto command = std::make_shared<GraphTuneCommand>();
  Command sub = app.subcommand(
      "graph-tune", "Choose the schedule, threads, layout and fusion of each layer for the whole network at once");
  command->model.records = "default";
  sub.group("Tune");
  command->model.add_model_to(sub, false);
  command->model.add_compile_to(sub);
  sub.heading("Search");
  sub.option("--records", command->model.records,
             "records to take costs from; the result is stored next to them: a file, "
             "postgresql://USER@HOST/DATABASE, default or none")
      .file()
      .suggests({"default", "none"})
      .shows_default();
  sub.option("--solver", command->solver,
             "dp: dynamic programming, for forests; pbqp: any graph; greedy: each layer on its own; auto: dp if "
             "possible, otherwise pbqp")
      .one_of({"auto", "dp", "pbqp", "greedy"})
      .shows_default();
  sub.option("--measure", command->measure, "time limit for measuring alternatives in the network, in seconds")
      .range(0.1, 3600.0)
      .shows_default();
  sub.option("--race", command->race, "time for the races against history-best and the accepted plan, in seconds")
      .range(0.1, 3600.0)
      .shows_default();
  sub.option("--schedules", command->schedules, "number of schedules to consider for each layer, besides the default")
      .range(0, 64)
      .shows_default();
  sub.flag("--measure-transforms", command->measure_transforms, "measure layout changes again, even if they are known");
  sub.flag("--no-run", command->no_run,
           "run nothing: take costs from records and estimates, choose only schedules, hold no race");
  sub.flag("--layers", command->layers, "print every alternative of every layer with its cost");
  sub.heading("Output");
  sub.option("--write-plan", command->write_plan, "write the choices to a file for --layer-plan").file();
  sub.json(command->json, "the outcome");
  sub.footer(
      "The winner of the race is stored next to the records, where other commands find it with --records FILE. With "
      "--no-run nothing is kept.");
  sub.example("kilter graph-tune zoo:squeezenet1_1 --threads 1", "Combine what earlier tuning has recorded");
  sub.example("kilter graph-tune zoo:squeezenet1_1 --threads 1 --no-run --layers",
              "The alternatives of each layer, without running anything");
  sub.callback([command] { run_graph_tune(*command); });
}

}  // namespace kilter::tool
