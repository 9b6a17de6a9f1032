#include "look_ahead.h"

#include "base/text.h"
#include "tune/records/place.h"
#include "tune/records/store.h"
#include "tune/tuner/plans/outlook.h"
#include "tune/tuner/plans/use_tuned.h"
#include "tuning.h"

namespace kilter::tool {
namespace {

/// Returns the layers that a tuner could tune.
std::vector<tune::OutlookLayer> layers_of(const profile::Profile& p) {
  std::vector<tune::OutlookLayer> layers;
  for (const profile::Row& r : p.rows) {
    if (r.schedule.empty() || r.kind == profile::RowKind::reference) continue;
    layers.push_back({r.name, r.problem, r.layouts, r.schedule, r.from(), r.time.mean});
  }
  return layers;
}

/// Reads the records of a file. `told` suppresses the report of damage, which was printed when --records was read.
std::vector<tune::Record> records_of(const std::string& file, bool told) {
  if (tune::is_absent(file)) return {};
  const auto store = tune::Store::open(file, tune::Store::Mode::read);
  return told ? store->read().records : read_records(*store);
}

/// The accepted plan that --records would use, and whether it is in use. With a layer plan, there is no accepted plan.
struct Accepted {
  std::optional<tune::KeptPlan> plan;
  bool in_use = false;
};

Accepted accepted_of(const std::string& file, const profile::Profile& p, const ModelOptions& options,
                     const Graph& graph) {
  if (!options.layer_plan.empty()) return {};
  const bool given = options.records != "none";
  const tune::KeptPlans plans = tune::read_plans(tune::plans_file(file));
  if (!given) {
    for (const std::string& line : plans.damaged) say_error("{}\n", printable(line));
  }
  ModelOptions::CompileSetup plain = options.without_records().compile_setup();
  plain.options.report.notice = nullptr;  // already reported
  const CompileOptions compile = adapted(plain.options, plain.chooser.get(), graph);
  tune::ApplyOptions here;
  here.device = p.conditions.device, here.threads = p.threads;
  const tune::KeptPlan* found = tune::accepted_plan(plans, graph, compile, here);
  if (found == nullptr) return {};
  Accepted out{*found, given && options.choose != "history-best"};
  out.plan->choices = tune::allowed(std::move(out.plan->choices), compile.forbidden);
  return out;
}

tune::Outlook outlook_of(const std::string& file, const profile::Profile& p, const ModelOptions& options,
                         const Session& session, const Graph& graph, double minutes) {
  const std::vector<tune::Record> records = records_of(file, options.records != "none");
  const Accepted accepted = accepted_of(file, p, options, graph);
  tune::OutlookFor what;
  what.here.target = p.conditions.target, what.here.device = p.conditions.device, what.here.threads = p.threads;
  what.network = session.name(), what.minutes = minutes;
  what.accepted = accepted.plan ? &*accepted.plan : nullptr, what.accepted_in_use = accepted.in_use;
  return tune::outlook(layers_of(p), p.sum_ms, records, what);
}

std::string layer_count_text(int64_t layers) { return fmt::format("{} layer{}", layers, layers == 1 ? "" : "s"); }

std::string percent_of(double ms, const tune::Outlook& o) { return fmt::format("{:.1f} %", 100 * ms / o.total_ms); }

/// The gain of records that the network does not use.
std::optional<profile::TuningGain> unused(const tune::Outlook& o, const ModelOptions& options,
                                          const std::string& file) {
  const tune::OutlookPart& part = o.available;
  if (options.records != "none" || part.layers == 0 || part.gain_ms <= 0) return std::nullopt;
  profile::TuningGain gain;
  gain.kind = profile::TuningGain::unused, gain.gain_ms = part.gain_ms;
  gain.evidence =
      fmt::format("{}, {} of the time, {} in {}", layer_count_text(part.layers), percent_of(part.ms, o),
                  !o.accepted.empty() ? fmt::format("would run differently under the plan accepted on {}", o.accepted)
                  : part.layers == 1  ? "has a faster schedule"
                                      : "have a faster schedule",
                  file);
  gain.advice = "--records default";
  gain.action = use_records_command(options);
  return gain;
}

std::optional<profile::TuningGain> untuned(const tune::Outlook& o, const std::string& action) {
  if (o.further.layers == 0 || o.further.gain_ms <= 0) return std::nullopt;
  profile::TuningGain gain;
  gain.kind = profile::TuningGain::untuned, gain.gain_ms = o.further.gain_ms;
  gain.evidence =
      fmt::format("{}, {} of the time, {} schedules left to try; {:g} minutes of tuning are expected to gain this, {}",
                  layer_count_text(o.further.layers), percent_of(o.further.ms, o),
                  o.further.layers == 1 ? "has" : "have", o.minutes,
                  o.prior.layers == o.further.layers ? "judging by the searcher's mean regret (a prior)"
                                                     : "judging by the gains in their records");
  gain.advice = "tune; the gain is then measured in interleaved whole runs of the network";
  gain.action = action;
  return gain;
}

}  // namespace

std::optional<profile::Tuning> look_ahead(const profile::Profile& profile, const ModelOptions& options,
                                          const Session& session, const std::function<Graph()>& graph, double minutes) {
  if (session.compiled_file()) return std::nullopt;
  profile::Tuning out;
  out.action = fmt::format("{} --time {:g}min", tune_command(options), minutes);
  try {
    const std::string given = options.records_file();
    const std::string file = given.empty() ? tune::default_records_file().string() : given;
    const tune::Outlook ahead = outlook_of(file, profile, options, session, graph(), minutes);
    out.lines = tune::text(ahead, tune::shown(file)), out.summary = tune::summary(ahead);
    for (const auto& gain : {unused(ahead, options, tune::shown(file)), untuned(ahead, out.action)}) {
      if (gain) out.gains.push_back(*gain);
    }
  } catch (const std::exception& e) {  // keep the measurements
    out.summary = fmt::format("The gain of tuning is not known: {}", e.what());
    out.lines = {out.summary};
  }
  return out;
}

Option add_minutes(Command app, double& minutes) {
  app.heading("Tuning", true);
  return app.option("--minutes", minutes, "duration of further tuning, in minutes, for which to predict the gain")
      .range(0.1, 10000.0)
      .shows_default();
}

}  // namespace kilter::tool
