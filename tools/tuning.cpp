#include "tuning.h"

#include "codegen/llvm/backend.h"
#include "exec/thread_pool.h"
#include "measure/device.h"
#include "tune/records/match.h"
#include "tune/tuner/apply.h"

namespace kilter::tool {

using namespace kilter::tune;

namespace {

/// As the inputs of the command line make it.
Graph bound_graph(const Session& session, const std::map<std::string, Tensor>& inputs) {
  onnx::Model::Shapes shapes;
  for (const auto& [name, tensor] : inputs) shapes[name] = tensor.shape();
  return session.graph(shapes, session.needed_values(inputs));
}

std::vector<Record> read_records(Store& store) {
  Reading reading = store.read();
  for (const std::string& line : store.notices()) fmt::print(stderr, "{}\n", line);
  for (const std::string& line : reading.damaged) fmt::print(stderr, "{}\n", line);
  return std::move(reading.records);
}

/// The graph tuner's answer from records, for who has not run it.
Recorded answer_of_records(const PassedGraph& passed, const CompileOptions& compile, const std::vector<Record>& records,
                           const ApplyOptions& how) {
  Recorded history = apply_records(passed, compile, Matcher(records), how);
  CompileOptions look = compile;
  look.generate_code = false, look.keep_placed = true;
  Choices before;
  for (const auto& [node, schedule] : history.schedules) before[node] = schedule;
  GraphTuneOptions options;
  options.threads = how.threads, options.device = how.device;
  const GraphBest best = graph_best_of_records(compile_passed(passed, look), look, records, before, options);
  for (const auto& [node, choice] : best.choices) {
    if (history.schedules[node] == *choice.schedule) continue;
    history.schedules[node] = *choice.schedule;
    history.words[node] = "graph-best by records";
  }
  history.summary += ", graph-best by records";
  return history;
}

}  // namespace

void choose_graph_best(const ModelOptions& model, const Session& session, CompileOptions& compile) {
  ApplyOptions how;
  how.file = model.records_file();
  how.device = describe_device().fingerprint();
  how.threads = model.threads > 0 ? model.threads : default_threads();
  const Graph graph = bound_graph(session, model.all_inputs(session));
  const PlanKey key{graph_key(graph), compile.target.name, how.device, codegen_version(), how.threads};
  const KeptPlans plans = read_plans(plans_file(how.file));
  for (const std::string& line : plans.damaged) fmt::print(stderr, "{}\n", line);
  const KeptPlan* kept = model.forbid.empty() ? plans.find(key) : nullptr;
  if (kept != nullptr) {
    add_settings(kept->choices, compile);
    const std::string words = fmt::format("graph-best of {}, {:.3f} of history-best's time, {:.3f} of the default's",
                                          kept->date.substr(0, 10), kept->ratio.value, kept->default_ratio.value);
    compile.recorded = [choices = kept->choices, words](const PassedGraph&, const CompileOptions&) {
      return recorded_choices(choices, words);
    };
    return;
  }
  const auto records =
      std::make_shared<const std::vector<Record>>(read_records(*Store::open(how.file, Store::Mode::read)));
  for (const std::string& text : model.forbid) how.forbidden.push_back(parse_forbidden(text));
  compile.recorded = [how, records](const PassedGraph& passed, const CompileOptions& options) {
    return answer_of_records(passed, options, *records, how);
  };
}

TuningSetup::TuningSetup(const ModelOptions& options, const std::string& command) {
  if (!options.layer_plan.empty() || !options.forbid.empty())
    fail(ErrorKind::usage, "{}: --layer-plan and --forbid are for commands that use what was tuned; leave them out",
         command);
  ModelOptions model = options;
  model.records = "none", model.choose = "history-best";  // candidates are judged against the defaults
  session = model.open();
  if (session->compiled_file())
    fail(ErrorKind::usage, "{} is a compiled file: tuning needs the model that it was made from", options.model);
  threads = options.threads > 0 ? options.threads : default_threads();
  device = describe_device().fingerprint();
  file = options.records_file();
  if (!file.empty()) {
    store = Store::open(file, Store::Mode::write);
    known = read_records(*store);
  }
  const std::map<std::string, Tensor> all = options.all_inputs(*session);
  graph = bound_graph(*session, all);
  for (const ValueId v : graph.inputs()) inputs.push_back(all.at(graph.value(v).name));
}

PlanKey TuningSetup::key() const {
  return {graph_key(graph), compile().target.name, device, codegen_version(), threads};
}

void keep(const TuningSetup& setup, const GraphBest& best, const Choices& history) {
  if (setup.file.empty()) return;
  KeptPlan plan{setup.key(), setup.session->name(), iso_date(), best.won ? best.choices : history, {1, 1, 1}, {}};
  if (best.won) plan.ratio = best.ratio, plan.default_ratio = best.default_ratio;
  keep_plan(plans_file(setup.file), plan);
}

std::string ratio_text(const Ratio& r) { return fmt::format("{:.4f} ({:.4f} to {:.4f})", r.value, r.low, r.high); }

std::string graph_text(const GraphBest& b) {
  std::string out = fmt::format(
      "graph tuner: {} layers, {} alternatives, {} edges; {}, {:.1f} ms, {}; {} variants measured, {:.1f} s to "
      "prepare\n",
      b.layers, b.alternatives, b.edges, b.answer.how, b.solve_ms,
      b.answer.exact ? "exact" : fmt::format("at most {:.2f} % from the best", 100 * b.answer.gap()),
      b.measured.variants, b.prepare_ms / 1e3);
  if (b.transforms.model) {
    out += fmt::format("layout changes: {} samples, {}\n", b.transforms.model->samples().size(),
                       b.transforms.seconds > 0 ? fmt::format("measured in {:.1f} s", b.transforms.seconds)
                                                : "known from " + b.transforms.file);
  }
  if (b.measured.crowded > 0.5) {
    out += fmt::format(
        "numbers of threads: other processes took CPUs away in {:.0f} % of the rounds, which do not count; "
        "a quiet machine tells more\n",
        100 * b.measured.crowded);
  }
  out += fmt::format("layers by the model: history-best {:.4f} ms, graph-best {:.4f} ms\n", b.history_ms, b.answer.ms);
  if (b.same_plan) return out + "graph-best is history-best\n";
  const Differences& d = b.differences;
  out += fmt::format("graph-best differs in {} schedules, {} numbers of threads, {} layouts, {} fusions\n", d.schedules,
                     d.threads, d.layouts, d.fusions);
  if (b.rounds == 0) return out;
  return out + fmt::format("graph-best / history-best {} in {} paired rounds: {}\n", ratio_text(b.ratio), b.rounds,
                           b.won ? "graph-best is taken" : "history-best stays");
}

}  // namespace kilter::tool
