#include "tune/tuner/use_tuned.h"

#include <algorithm>
#include <set>
#include <span>
#include <variant>

#include "codegen/llvm/backend.h"
#include "tune/tuner/graph_best.h"

namespace kilter::tune {
namespace {

/// The plan without code; why the graph cannot be compiled so.
std::variant<Plan, std::string> look_at(const Graph& graph, CompileOptions options) {
  options.generate_code = false;
  options.notice = nullptr;
  options.dump_ir.clear();
  try {
    return std::move(compile_graph(graph, options).plan);
  } catch (const Error& e) {
    return e.message();
  }
}

/// Without the schedules that barred records gave the layers of this plan.
Choices without(Choices choices, const Plan& plan, std::span<const Record> barred) {
  std::set<std::string> layers;
  for (const Step& step : plan.steps) {
    if (std::ranges::any_of(barred,
                            [&](const Record& r) { return r.problem == step.problem && r.schedule == step.schedule; }))
      layers.insert(step.name);
  }
  return without_schedules(std::move(choices),
                           [&](const std::string& node, const Schedule&) { return layers.contains(node); });
}

const KeptPlan* kept_plan(const TunedSource& source, const Graph& graph, const CompileOptions& compile) {
  PlanKey key{graph_key(graph),  compile.target.name,  source.apply.device,
              codegen_version(), source.apply.threads, plan_settings(compile, true)};
  const KeptPlan* found = source.plans->find(key);
  key.settings = plan_settings(compile, false);
  return found != nullptr ? found : source.plans->find(key);  // single layers that are forced stay so
}

/// Whether there is an accepted plan, which then is in the options.
bool take_kept(const TunedSource& source, const Graph& graph, CompileOptions& compile) {
  const KeptPlan* kept = kept_plan(source, graph, compile);
  if (kept == nullptr) return false;
  const auto with = [&](const Choices& choices) {
    CompileOptions out = compile;
    add_settings(choices, out);
    out.recorded = [recorded = recorded_plan(*kept, choices, source.apply)](const PassedGraph&, const CompileOptions&) {
      return recorded;
    };
    return out;
  };
  Choices choices = allowed(kept->choices, compile.forbidden);
  const auto seen = look_at(graph, with(choices));
  if (const auto* why = std::get_if<std::string>(&seen)) {
    if (source.notice) {
      source.notice(fmt::format("{}: the plan accepted {} is passed over, as it does not compile here: {}",
                                source.apply.file, kept->date.substr(0, 10), *why));
    }
    return false;
  }
  compile = with(without(std::move(choices), std::get<Plan>(seen), source.barred));
  return true;
}

/// The graph tuner's answer from records.
Recorded graph_best_recorded(const PassedGraph& passed, const CompileOptions& compile, const Matcher& records,
                             const ApplyOptions& how) {
  Recorded history = apply_records(passed, compile, records, how);
  CompileOptions look = compile;
  look.generate_code = false, look.keep_placed = true;
  Choices before;
  for (const auto& [node, schedule] : history.schedules) before[node] = schedule;
  GraphTuneOptions options;
  options.threads = how.threads, options.device = how.device;
  const GraphBest best = graph_best_of_records(compile_passed(passed, look), look, records.records(), before, options);
  for (const Layer& layer : best.network.layers) {  // layers without a choice run their default
    if (!best.choices.contains(layer.node)) history.schedules.erase(layer.node), history.words.erase(layer.node);
  }
  for (const auto& [node, choice] : allowed(best.choices, compile.forbidden)) {
    if (history.schedules[node] == *choice.schedule) continue;
    history.schedules[node] = *choice.schedule;
    history.words[node] = "graph-best by records";
  }
  history.summary += ", graph-best by records";
  return history;
}

}  // namespace

Choose parse_choose(std::string_view text) {
  if (text == "accepted") return Choose::accepted;
  if (text == "history-best") return Choose::history_best;
  if (text == "graph-best") return Choose::graph_best;
  fail(ErrorKind::usage, "--choose {}: legal are accepted, history-best and graph-best", text);
}

void use_tuned(CompileOptions& options, TunedSource from) {
  options.adapt = [source = std::move(from)](const Graph& graph, CompileOptions& compile) {
    if (source.choose != Choose::history_best && take_kept(source, graph, compile)) return;
    const auto answer = source.choose == Choose::graph_best ? graph_best_recorded : apply_records;
    compile.recorded = [records = source.records, how = source.apply, answer](const PassedGraph& passed,
                                                                              const CompileOptions& compiled) {
      return answer(passed, compiled, *records, how);
    };
  };
}

}  // namespace kilter::tune
