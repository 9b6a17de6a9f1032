#include "tune/tuner/plans/use_tuned.h"

#include <set>
#include <span>
#include <variant>

#include "codegen/backend.h"
#include "tune/tuner/graph_best/graph_best.h"

namespace kilter::tune {
namespace {

constexpr std::string_view kNoRecord = "no record of its schedule";

/// Compiles a plan without code. Returns the error text if the graph cannot be compiled with these options.
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

/// Layers of this plan whose schedules are barred, or proved wrong or crashed after it was accepted.
std::set<std::string> barred_layers(const Plan& plan, const Matcher& records, const std::string& target) {
  std::set<std::string> layers;
  for (const Step& step : plan.steps) {
    if (records.barred(step.problem, target, step.schedule)) layers.insert(step.name);
  }
  return layers;
}

/// Appends what the records say about their schedules to the words of the plan's layers.
void add_record_words(Recorded& recorded, const Plan& plan, const TunedSource& source, const CompileOptions& compile) {
  for (const Step& step : plan.steps) {
    const auto mine = recorded.schedules.find(step.name);
    if (step.kind != StepKind::kernel || mine == recorded.schedules.end() || mine->second.text() != step.schedule)
      continue;
    const Query query = query_of(step.problem, step.layouts, {}, compile, source.apply);
    recorded.words[step.name] +=
        "; " + words_of(*source.records, query, step.schedule, source.apply).value_or(std::string(kNoRecord));
  }
}

/// Puts the accepted plan into the options. Returns whether there is one.
bool take_kept(const TunedSource& source, const Graph& graph, CompileOptions& compile) {
  const KeptPlan* kept = accepted_plan(*source.plans, graph, compile, source.apply);
  if (kept == nullptr) return false;
  const auto with = [&](const Choices& choices, Recorded recorded) {
    CompileOptions out = compile;
    add_settings(choices, out);
    out.recorded = [all = std::move(recorded)](const PassedGraph&, const CompileOptions&) { return all; };
    return out;
  };
  Choices choices = allowed(kept->choices, compile.forbidden);
  const auto seen = look_at(graph, with(choices, recorded_plan(*kept, choices, source.apply)));
  if (const auto* why = std::get_if<std::string>(&seen)) {
    if (source.notice) {
      source.notice(fmt::format("{}: the plan accepted {} is passed over, as it does not compile here: {}",
                                source.apply.file, kept->date.substr(0, 10), *why));
    }
    return false;
  }
  const Plan& plan = std::get<Plan>(seen);
  const std::set<std::string> layers = barred_layers(plan, *source.records, compile.target.name);
  choices = without_schedules(std::move(choices),
                              [&](const std::string& node, const Schedule&) { return layers.contains(node); });
  if (!layers.empty() && source.notice) {
    source.notice(fmt::format(
        "{}: {} layers of the plan accepted {} run their defaults, as records bar their schedules (forbidden, wrong or "
        "crashed): {}",
        source.apply.file, layers.size(), kept->date.substr(0, 10), fmt::join(layers, ", ")));
  }
  Recorded recorded = recorded_plan(*kept, choices, source.apply);
  add_record_words(recorded, plan, source, compile);
  compile = with(choices, std::move(recorded));
  return true;
}

/// The graph tuner's solution from records.
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
  size_t others = 0, defaults = 0;
  for (const Layer& layer : best.network.layers) {
    const auto choice = best.choices.find(layer.node);
    const std::string schedule = choice == best.choices.end() ? "" : choice->second.schedule->text();
    if (schedule.empty() || records.barred(layer.problem, compile.target.name, schedule)) {
      history.words.erase(layer.node);
      defaults += history.schedules.erase(layer.node);  // layers without a choice run the default
    } else if (history.schedules[layer.node].text() != schedule) {
      ++others;
      const Query query = query_of(layer.problem, layer.layouts, layer.schedule, compile, how);
      const auto words = words_of(records, query, schedule, how);
      history.schedules[layer.node] = *choice->second.schedule;
      history.words[layer.node] =
          words ? "graph-best by records; " + *words : fmt::format("graph-best by estimates; {}", kNoRecord);
    }
  }
  if (history.schedules.empty()) history.tuned_at = 0;
  if (others > 0 && history.tuned_at == 0) history.tuned_at = how.threads;
  history.summary += fmt::format(", graph-best by records: {} of them otherwise, {} by default", others, defaults);
  return history;
}

}  // namespace

Choose parse_choose(std::string_view text) {
  if (text == "accepted") return Choose::accepted;
  if (text == "history-best") return Choose::history_best;
  if (text == "graph-best") return Choose::graph_best;
  fail(ErrorKind::usage, "--choose {}: legal values are accepted, history-best and graph-best", text);
}

const KeptPlan* accepted_plan(const KeptPlans& plans, const Graph& graph, const CompileOptions& compile,
                              const ApplyOptions& apply) {
  PlanKey key{graph_key(graph),  compile.target.name, apply.device,
              codegen_version(), apply.threads,       plan_settings(compile, true)};
  const KeptPlan* found = plans.find(key);
  key.settings = plan_settings(compile, false);
  return found != nullptr ? found : plans.find(key);  // settings for single layers take precedence over the plan
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
