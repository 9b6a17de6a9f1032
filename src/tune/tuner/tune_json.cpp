#include "tune/tuner/tune_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "tune/tuner/undecided.h"

namespace kilter::tune {
namespace {

using nlohmann::json;

json if_known(double value) { return value > 0 ? json(value) : json(nullptr); }

/// Returns null for an infinite time.
json if_limited(double seconds) { return std::isfinite(seconds) ? json(seconds) : json(nullptr); }

void add_speed(json& out, const Speed& speed) {
  out["gflops"] = if_known(speed.gflops), out["share_of_bound"] = if_known(speed.share_of_bound);
}

json memory_json(const PlanMemory& m) {
  return {{"bytes", m.bytes()}, {"weights", m.weights}, {"arena", m.arena}, {"scratch", m.scratch}, {"code", m.code}};
}

json speed_json(const Speed& speed) {
  json out;
  add_speed(out, speed);
  return out;
}

json event_json(const PhaseEvent& e) { return {{"event", "phase"}, {"phase", e.phase}}; }

json event_json(const PreparedEvent& e) {
  json tasks = json::array();
  for (const PreparedEvent::TaskRow& t : e.tasks) {
    tasks.push_back({{"task", t.task},
                     {"problem", t.problem},
                     {"layouts", t.layouts},
                     {"nodes", t.nodes},
                     {"share", t.share},
                     {"default", t.fallback},
                     {"best", t.best},
                     {"size", t.size}});
  }
  return {{"event", "prepared"},
          {"default_ms", e.default_ms},
          {"conditions", kilter::to_json(e.conditions)},
          {"tasks", tasks}};
}

json event_json(const TrialEvent& e) {
  json out{{"event", "trial"},       {"task", e.task},           {"node", e.node},
           {"schedule", e.schedule}, {"status", name(e.status)}, {"error", e.error}};
  if (e.status != Status::ok) return out;
  out["ratio"] = to_json(e.ratio), out["samples"] = e.samples;
  out["so_far"] = to_json(e.so_far), out["all_samples"] = e.all_samples;
  add_speed(out, e.speed);
  return out;
}

json event_json(const GainEvent& e) {
  json out{{"event", "gain"},
           {"task", e.task},
           {"schedule", e.schedule},
           {"ratio", to_json(e.ratio)},
           {"predicted_ms", e.predicted_ms}};
  add_speed(out, e.speed);
  return out;
}

json event_json(const RaceEvent& e) {
  json out{{"event", "race"}, {"attempt", e.attempt}, {"tasks", e.tasks}, {"rounds", e.rounds}, {"fault", e.fault}};
  if (e.rounds == 0) return out;
  out["default_ms"] = to_json(e.default_ms), out["tuned_ms"] = to_json(e.tuned_ms);
  out["ratio"] = to_json(e.ratio), out["given_way"] = e.given_way;
  return out;
}

/// All settings that the selected searcher uses.
json options_json(const SearchOptions& options) {
  json out = json::object();
  for (const SearchOptionRow& row : all_search_options()) {
    if (!reads(options.searcher, row)) continue;
    const std::string text = row.text(options);
    out[std::string(row.name)] = row.word != nullptr ? json(text) : parse_json(text);
  }
  return out;
}

json task_json(const TunedTask& t) {
  return {{"task", t.number},
          {"problem", t.problem},
          {"layouts", t.layouts},
          {"nodes", t.nodes},
          {"share", t.share},
          {"default", t.fallback},
          {"schedule", t.schedule},
          {"predicted", to_json(t.predicted)},
          {"in_network", to_json(t.in_network)},
          {"before", speed_json(t.before)},
          {"after", speed_json(t.after)},
          {"trials", t.trials},
          {"tried", t.tried},
          {"size", t.size},
          {"failures", t.failures},
          {"layers_otherwise", t.otherwise},
          {"space", t.space}};
}

}  // namespace

json to_json(const Ratio& r) { return {{"value", r.value}, {"low", r.low}, {"high", r.high}}; }

json to_json(const TuneEvent& event) {
  json out = std::visit([](const auto& what) { return event_json(what); }, event.what);
  out["seconds"] = event.seconds, out["trials"] = event.trials;
  return out;
}

json to_json(const TuneProgress& p) {
  json out{{"event", "progress"},
           {"phase", p.phase},
           {"seconds", p.seconds},
           {"seconds_left", if_limited(p.seconds_left())},
           {"trials", p.trials},
           {"trials_left", p.most_trials > 0 ? json(std::max<int64_t>(0, p.most_trials - p.trials)) : json(nullptr)},
           {"failures", p.faults},
           {"restarts", p.restarts},
           {"default_ms", p.default_ms},
           {"predicted_ms", p.predicted_ms},
           {"remaining", p.remaining},
           {"last_gflops", if_known(p.gflops(p.current_ms()))}};
  if (p.default_bytes > 0) out["default_bytes"] = p.default_bytes, out["predicted_bytes"] = p.predicted_bytes;
  add_speed(out, {p.gflops(p.predicted_ms), p.share_of_bound()});
  out["quiet"] = name(quietness(p.runs)), out["disturbed_share"] = disturbed_share(p.runs);
  return out;
}

json start_json(const TuneOptions& options) {
  return {{"event", "start"},
          {"seconds", 0.0},
          {"trials", 0},
          {"network", options.network},
          {"threads", options.threads},
          {"objective", text(options.objective)},
          {"budget_seconds", if_limited(options.seconds)},
          {"most_trials", options.trials},
          {"early_stopping", options.early_stopping},
          {"until", options.until},
          {"searcher", options.search.searcher},
          {"seed", options.search.seed},
          {"searcher_options", options_json(options.search)},
          {"cost_model", options.cost_model},
          {"graph_best", options.graph_best},
          {"number", options.trial.number},
          {"repeat", options.trial.repeat},
          {"min_repeat_ms", options.trial.min_repeat_ms},
          {"timeout_ms", options.trial.timeout_ms},
          {"n_parallel", options.trial.n_parallel},
          {"ops", options.ops},
          {"known_records", options.known.size()},
          {"program", options.program},
          {"device", options.device}};
}

json to_json(const GraphBest& b) {
  json out{{"layers", b.layers},
           {"alternatives", b.alternatives},
           {"edges", b.edges},
           {"how", b.answer.how},
           {"exact", b.answer.exact},
           {"solve_ms", b.solve_ms},
           {"prepare_ms", b.prepare_ms},
           {"race_ms", b.race_ms},
           {"variants", b.measured.variants},
           {"crowded", b.measured.crowded},
           {"transforms_seconds", b.transforms.seconds},
           {"history_ms", b.history_ms},
           {"graph_ms", b.graph_ms},
           {"same_plan", b.same_plan},
           {"won", b.won},
           {"ratio", to_json(b.ratio)},
           {"default_ratio", to_json(b.default_ratio)},
           {"rounds", b.rounds},
           {"differences",
            {{"schedules", b.differences.schedules},
             {"threads", b.differences.threads},
             {"layouts", b.differences.layouts},
             {"fusions", b.differences.fusions}}}};
  if (!b.check.wrong.empty()) out["wrong"] = b.check.wrong;
  if (!b.history_check.wrong.empty()) out["history_refused"] = b.history_check.wrong;
  if (b.accepted_ratio) out["accepted_ratio"] = to_json(*b.accepted_ratio);
  return out;
}

json to_json(const TuneResult& r) {
  json out{{"default_ms", to_json(r.default_ms)},
           {"tuned_ms", to_json(r.tuned_ms)},
           {"ratio", to_json(r.ratio)},
           {"history_ratio", to_json(r.history_ratio)},
           {"objective", text(r.objective)},
           {"default_memory", memory_json(r.default_memory)},
           {"tuned_memory", memory_json(r.tuned_memory)},
           {"bytes_ratio", r.bytes_ratio()},
           {"score", to_json(r.score())},
           {"before", speed_json(r.before)},
           {"after", speed_json(r.after)},
           {"same_plan", r.same_plan},
           {"kept_previous", r.kept},
           {"rounds", r.rounds},
           {"trials", r.trials},
           {"failures", r.failures},
           {"failed", json::object()},
           {"runs", r.runs},
           {"restarts", r.restarts},
           {"confined", r.confined},
           {"seconds", r.seconds},
           {"trials_per_second", r.trials_per_second},
           {"first_trials", r.first_trials},
           {"earlier_records", {{"read", r.earlier.all}, {"counted", r.earlier.here}, {"advised", r.earlier.advised}}},
           {"building", r.building},
           {"regret", r.regret},
           {"as_long_again", r.as_long_again},
           {"winner_flips", r.flips},
           {"fidelity", r.fidelity},
           {"stopped_because", r.stopped_because},
           {"conditions", kilter::to_json(r.conditions)},
           {"phases", json::array()},
           {"tasks", json::array()},
           {"choices", json::object()}};
  if (r.graph) out["graph"] = to_json(*r.graph);
  if (!r.graph_failed.empty()) out["graph_failed"] = r.graph_failed;
  if (!r.graph_left_out.empty()) out["graph_left_out"] = r.graph_left_out;
  if (r.rejected) {
    out["rejected"] = {{"default_ms", to_json(r.rejected->default_ms)},
                       {"ms", to_json(r.rejected->ms)},
                       {"ratio", to_json(r.rejected->ratio)},
                       {"rounds", r.rejected->rounds},
                       {"layers", r.rejected->layers}};
  }
  if (r.previous) out["previous"] = to_json(*r.previous);
  if (const std::string undecided = undecided_text(r); !undecided.empty()) out["undecided"] = undecided;
  if (!r.unheld.empty()) out["unheld"] = r.unheld;
  if (!r.refused.empty()) out["refused"] = r.refused;
  if (!r.given_up.empty()) out["given_up"] = r.given_up;
  for (const auto& [status, f] : r.failed)
    out["failed"][std::string(name(status))] = {
        {"count", f.count}, {"task", f.task}, {"schedule", f.schedule}, {"error", f.error}};
  for (const PhaseTime& p : r.phases) out["phases"].push_back({{"phase", p.phase}, {"seconds", p.seconds}});
  for (const TunedTask& t : r.tasks) out["tasks"].push_back(task_json(t));
  for (const auto& [node, choice] : r.choices) out["choices"][node] = text(choice);
  return out;
}

json to_json(const TuneTrace& trace) {
  json points = json::array(), gains = json::array(), spans = json::array(), races = json::array();
  for (const TuneTrace::Point& p : trace.points) {
    points.push_back(
        {{"seconds", p.seconds}, {"trials", p.trials}, {"predicted_ms", p.predicted_ms}, {"remaining", p.remaining}});
  }
  for (const TuneTrace::Gain& g : trace.gains) gains.push_back(to_json(TuneEvent{g.seconds, g.trials, g.what}));
  for (const TuneTrace::Span& s : trace.spans)
    spans.push_back({{"phase", s.phase}, {"begin", s.begin}, {"end", s.end}});
  for (const TuneTrace::Race& r : trace.races) {
    races.push_back(event_json(r.what));
    races.back()["seconds"] = r.seconds;
  }
  return {{"default_ms", trace.default_ms}, {"points", points}, {"gains", gains}, {"spans", spans}, {"races", races}};
}

}  // namespace kilter::tune
