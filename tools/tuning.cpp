#include "tuning.h"

#include "codegen/llvm/backend.h"
#include "compile/check_options.h"
#include "exec/thread_pool.h"
#include "measure/device.h"

namespace kilter::tool {

using namespace kilter::tune;

namespace {

/// As the inputs of the command line make it.
Graph bound_graph(const Session& session, const std::map<std::string, Tensor>& inputs) {
  onnx::Model::Shapes shapes;
  for (const auto& [name, tensor] : inputs) shapes[name] = tensor.shape();
  return session.graph(shapes, session.needed_values(inputs));
}

}  // namespace

std::vector<Record> read_records(Store& store) {
  Reading reading = store.read();
  for (const std::string& line : store.notices()) fmt::print(stderr, "{}\n", line);
  for (const std::string& line : reading.damaged) fmt::print(stderr, "{}\n", line);
  return std::move(reading.records);
}

TuningSetup::TuningSetup(const ModelOptions& options) {
  ModelOptions model = options;
  model.records = "none", model.choose.clear();  // candidates are judged against the defaults
  std::erase_if(model.forbid, names_record);
  session = model.open();
  if (session->compiled_file())
    fail(ErrorKind::usage, "{} is a compiled file: tuning needs the model that it was made from", options.model);
  threads = options.threads > 0 ? options.threads : default_threads();
  device = describe_device().fingerprint();
  file = options.records_file();
  if (!file.empty()) {
    store = Store::open(file, Store::Mode::write);
    known = read_records(*store);
    options.bar_records(known);
  }
  const std::map<std::string, Tensor> all = options.all_inputs(*session);
  graph = bound_graph(*session, all);
  for (const ValueId v : graph.inputs()) inputs.push_back(all.at(graph.value(v).name));
  compile_ = adapted(session->options().compile, graph);
  if (!compile_.forbidden.empty()) check_forbidden(run_passes(graph, compile_), compile_);
}

PlanKey TuningSetup::key() const {
  return {graph_key(graph), compile().target.name, device, codegen_version(), threads, plan_settings(compile(), true)};
}

std::optional<KeptPlan> kept_plan(const TuningSetup& setup) {
  if (setup.file.empty()) return std::nullopt;
  const KeptPlans plans = read_plans(plans_file(setup.file));
  const KeptPlan* plan = plans.find(setup.key());
  return plan == nullptr ? std::nullopt : std::optional(*plan);
}

std::string keep(const TuningSetup& setup, const TuneResult& result, const std::optional<KeptPlan>& before) {
  if (setup.file.empty()) return {};
  if (result.same_plan && result.trials == 0 && !result.rejected)
    return "nothing was tried, so nothing is said of the plan\n";
  const std::optional<KeptPlan> now = kept_plan(setup);
  const bool other = now && (!before || !(now->choices == before->choices) || now->date != before->date);
  if (other && now->default_ratio.value <= result.ratio.value) {
    return fmt::format(
        "the plan that another run accepted meanwhile stays: it took {} of the default's time in its race\n",
        ratio_text(now->default_ratio));
  }
  KeptPlan plan{setup.key(), setup.session->name(), iso_date(), result.choices, {1, 1, 1}, result.ratio};
  if (result.graph && result.graph->won) plan.ratio = result.graph->ratio;
  keep_plan(plans_file(setup.file), plan);
  return {};
}

std::string keep(const TuningSetup& setup, const GraphBest& best, const Choices& history) {
  if (setup.file.empty()) return {};
  const KeptPlans all = read_plans(plans_file(setup.file));
  const KeptPlan* before = all.find(setup.key());
  if (before != nullptr && (!best.won || best.default_ratio.value >= before->default_ratio.value)) {
    return fmt::format("the plan that was accepted {} stays: it took {} of the default's time in its race\n",
                       before->date.substr(0, 10), ratio_text(before->default_ratio));
  }
  if (!best.won && best.rounds == 0) return {};  // nothing was raced
  KeptPlan plan{setup.key(), setup.session->name(), iso_date(), best.choices, best.ratio, best.default_ratio};
  if (!best.won) {
    const double over_default = best.default_ratio.value / best.ratio.value;  // history-best's
    const bool slower = over_default > 1;
    plan.choices = slower ? Choices{} : history;
    plan.ratio = {1, 1, 1};
    plan.default_ratio = slower ? Ratio{1, 1, 1} : Ratio{over_default, over_default, over_default};
  }
  keep_plan(plans_file(setup.file), plan);
  if (best.won) return "graph-best is kept as the accepted plan\n";
  return plan.choices.empty() ? "the default plan is kept as the accepted one\n"
                              : "history-best is kept as the accepted plan\n";
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
