#include "tune/tuner/plans/use_tuned.h"

#include <set>
#include <span>

#include "compile/code_versions.h"
#include "tune/tuner/graph_best/graph_best.h"

namespace kilter::tune {
namespace {

constexpr std::string_view kNoRecord = "no record of its schedule";

/// Layers of this plan whose schedules are barred, or proved wrong or crashed after it was accepted.
std::set<std::string> barred_layers(const Plan& plan, const Matcher& records, const std::string& target) {
  std::set<std::string> layers;
  for (const Step& step : plan.steps) {
    if (records.barred(step.problem, target, step.schedule)) layers.insert(step.name);
  }
  return layers;
}

/// Appends the records' descriptions of the schedules to the words of the plan's layers.
void add_record_words(Choices& choices, const Plan& plan, const TunedSource& source, const CompileOptions& compile) {
  for (const Step& step : plan.steps) {
    const auto mine = choices.find(step.name);
    if (step.kind != StepKind::kernel || mine == choices.end() || !mine->second.schedule ||
        mine->second.schedule->text() != step.schedule)
      continue;
    const Query query = query_of(step.problem, step.layouts, {}, compile, source.apply);
    mine->second.schedule_from.words +=
        "; " + words_of(*source.records, query, step.schedule, source.apply).value_or(std::string(kNoRecord));
  }
}

/// An accepted plan without the layers whose schedules are barred by records.
Recorded settled(const KeptPlan& kept, Choices choices, const TunedSource& source, const Compiled& compiled,
                 const CompileOptions& compile) {
  const std::set<std::string> layers = barred_layers(compiled.plan, *source.records, compile.target.name);
  choices = without_schedules(std::move(choices),
                              [&](const std::string& node, const Schedule&) { return layers.contains(node); });
  if (!layers.empty() && source.notice) {
    source.notice(fmt::format(
        "{}: records bar schedules of the plan accepted on {} (forbidden, wrong or crashed); these layers run "
        "their defaults: {}",
        source.apply.file, kept.date.substr(0, 10), fmt::join(layers, ", ")));
  }
  Recorded recorded = recorded_plan(kept, choices, source.apply);
  add_record_words(recorded.choices, compiled.plan, source, compile);
  return recorded;
}

/// Offers the accepted plan.
Offer offer_of(const KeptPlan& kept, const TunedSource& source, const CompileOptions& compile) {
  const Choices choices = allowed(kept.choices, compile.forbidden);
  Offer offer;
  offer.choices = recorded_plan(kept, choices, source.apply).choices;
  offer.settle = [&kept, &source, choices](const Compiled& compiled, const CompileOptions& options) {
    return settled(kept, choices, source, compiled, options);
  };
  offer.refused = [&kept, &source](const Error& why) {
    if (!source.notice) return;
    source.notice(fmt::format("{}: the plan accepted on {} is skipped: it does not compile here: {}", source.apply.file,
                              kept.date.substr(0, 10), why.message()));
  };
  return offer;
}

/// The graph tuner's solution from records.
Recorded graph_best_recorded(const Compiled& plan, const CompileOptions& compile, const Matcher& records,
                             const ApplyOptions& how) {
  Recorded history = apply_records(plan, compile, records, how);
  GraphTuneOptions options;
  options.threads = how.threads, options.device = how.device;
  const GraphBest best = graph_best_of_records(plan, compile, records.records(), history.choices, options);
  size_t others = 0, defaults = 0;
  for (const Layer& layer : best.network.layers) {
    const auto choice = best.choices.find(layer.node);
    const std::string schedule = choice == best.choices.end() ? "" : choice->second.schedule->text();
    const auto mine = history.choices.find(layer.node);
    if (schedule.empty() || records.barred(layer.problem, compile.target.name, schedule)) {
      defaults += history.choices.erase(layer.node);  // layers without a choice run the default
    } else if (mine == history.choices.end() || mine->second.schedule->text() != schedule) {
      ++others;
      const Query query = query_of(layer.problem, layer.layouts, layer.schedule, compile, how);
      const auto words = words_of(records, query, schedule, how);
      history.choices[layer.node] = {
          *choice->second.schedule,
          {ScheduleSource::record,
           words ? "graph-best by records; " + *words : fmt::format("graph-best by estimates; {}", kNoRecord)}};
    }
  }
  if (history.choices.empty()) history.tuned_at = 0;
  if (others > 0 && history.tuned_at == 0) history.tuned_at = how.threads;
  history.summary +=
      fmt::format(", graph-best by records: {} of them with another schedule, {} with the default", others, defaults);
  return history;
}

}  // namespace

Choose parse_choose(std::string_view text) {
  if (text == "accepted") return Choose::accepted;
  if (text == "history-best") return Choose::history_best;
  if (text == "graph-best") return Choose::graph_best;
  fail(ErrorKind::usage, "choose {}: expected 'accepted', 'history-best' or 'graph-best'", text);
}

const KeptPlan* accepted_plan(const KeptPlans& plans, const Graph& graph, const CompileOptions& compile,
                              const ApplyOptions& apply) {
  PlanKey key{graph_key(graph), compile.target.name,         apply.device, code_versions(compile.target).all(),
              apply.threads,    plan_settings(compile, true)};
  const KeptPlan* found = plans.find(key);
  key.settings = plan_settings(compile, false);
  return found != nullptr ? found : plans.find(key);  // settings for single layers take precedence over the plan
}

std::vector<Offer> TunedChooser::offers(const Graph& graph, const CompileOptions& options) const {
  std::vector<Offer> out;
  const KeptPlan* kept =
      source_.choose == Choose::history_best ? nullptr : accepted_plan(*source_.plans, graph, options, source_.apply);
  if (kept != nullptr) out.push_back(offer_of(*kept, source_, options));
  const auto answer = source_.choose == Choose::graph_best ? graph_best_recorded : apply_records;
  Offer& records = out.emplace_back();
  records.settle = [this, answer](const Compiled& plan, const CompileOptions& compile) {
    return answer(plan, compile, *source_.records, source_.apply);
  };
  return out;
}

}  // namespace kilter::tune
