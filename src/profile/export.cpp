#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "profile/table.h"

namespace kilter::profile {
namespace {

using nlohmann::json;

json time_json(const Time& t) { return {{"mean_ms", t.mean}, {"p10_ms", t.low}, {"p90_ms", t.high}}; }

/// Splits "c16 plain -> c16" into its source, the operands between, and its destination.
json layout_json(const std::string& layouts) {
  const size_t arrow = layouts.find("->");
  if (arrow == std::string::npos) return json::object();
  const std::string inputs = layouts.substr(0, arrow), outputs = layouts.substr(arrow + 2);
  const size_t space = inputs.find(' ');
  const auto trimmed = [](std::string text) {
    const size_t first = text.find_first_not_of(' ');
    if (first == std::string::npos) return std::string();
    return text.substr(first, text.find_last_not_of(' ') - first + 1);
  };
  return {{"source", trimmed(inputs.substr(0, space))},
          {"weights", space == std::string::npos ? "" : trimmed(inputs.substr(space))},
          {"destination", trimmed(outputs)}};
}

json counter_json(const CounterValues& c) {
  json out = json::object();
  for (const auto& [what, value] : {std::pair{"cycles", &c.cycles},
                                    {"instructions", &c.instructions},
                                    {"cache_misses", &c.cache_misses},
                                    {"stalled_cycles", &c.stalled_cycles}}) {
    if (*value) out[what] = **value;
  }
  if (!out.empty() && !c.invalid.empty()) out["invalid"] = c.invalid;
  return out;
}

json row_json(const Row& r) {
  return {{"kind", name(r.kind)},
          {"step", r.step},
          {"name", r.label()},
          {"layer", r.kind == RowKind::gap ? "" : r.name},
          {"ops", r.ops},
          {"problem", r.problem},
          {"schedule", r.schedule},
          {"schedule_from", r.schedule.empty() ? "" : name(r.from())},
          {"record", r.record},
          {"reads", r.reads},
          {"reads_inputs", r.reads_inputs},
          {"shapes", r.shapes},
          {"layouts", layout_json(r.layouts)},
          {"hash", r.key},
          {"device", "cpu"},
          {"count", r.count},
          {"depth", r.depth},
          {"iterations", r.iterations},
          {"whole_ms", r.whole_ms},
          {"duration_ms", r.time.mean},
          {"p10_ms", r.time.low},
          {"p90_ms", r.time.high},
          {"percent", r.percent},
          {"barrier_ms", r.barrier_ms},
          {"gap_before_ms", r.gap_ms},
          {"busy_ms", r.busy_ms},
          {"threads", r.threads},
          {"balance", r.balance},
          {"flops", r.flops},
          {"bytes", r.bytes},
          {"weight_bytes", r.weight_bytes},
          {"gflops", r.gflops()},
          {"effective_flops", r.effective_flops},
          {"effective_gflops", r.effective_gflops()},
          {"gbps", r.gbps()},
          {"bound", {{"kind", name(r.bound.kind)}, {"ms", r.bound.ms}, {"level", r.bound.level}}},
          {"share_of_bound", r.share()},
          {"beats_bound", r.beats_bound()},
          {"counters", counter_json(r.counters)}};
}

/// Removes the fields that Profile::elsewhere excludes.
void leave_out(json& profile) {
  for (const char* field : {"end_to_end_ms", "residual_ms", "sum_over_end_to_end", "overhead_percent", "barriers_ms",
                            "end_to_end", "no_counters", "timeline"})
    profile.erase(field);
  for (json& row : profile["rows"]) {
    for (const char* field : {"barrier_ms", "busy_ms", "threads", "balance", "counters", "reads", "reads_inputs"})
      row.erase(field);
  }
}

}  // namespace

json to_json(const Profile& p) {
  json rows = json::array(), arena = json::array(), timeline = json::array();
  for (const Row& r : p.rows) rows.push_back(row_json(r));
  for (const ArenaSpan& s : p.arena) {
    arena.push_back({{"name", s.name},
                     {"offset", s.offset},
                     {"bytes", s.bytes},
                     {"first_step", s.first_step},
                     {"last_step", s.last_step}});
  }
  for (const Event& e : p.timeline)
    timeline.push_back({{"row", e.row}, {"thread", e.thread}, {"begin_us", e.begin_us}, {"end_us", e.end_us}});
  json out{{"model", p.model},
           {"program", p.program},
           {"total_ms", p.total_ms},
           {"sum_ms", p.sum_ms},
           {"end_to_end_ms", p.end_to_end_ms},
           {"residual_ms", p.residual_ms},
           {"sum_over_end_to_end",
            {{"value", p.sum_over_end_to_end.value},
             {"low", p.sum_over_end_to_end.low},
             {"high", p.sum_over_end_to_end.high},
             {"agreement", name(agreement(p.sum_over_end_to_end))}}},
           {"bounds_beaten", beaten_text(p)},
           {"overhead_percent", p.overhead_percent},
           {"kernels_ms", p.kernels_ms},
           {"barriers_ms", p.barriers_ms},
           {"gaps_ms", p.gaps_ms},
           {"total", time_json(p.total)},
           {"end_to_end", time_json(p.end_to_end)},
           {"passes", p.passes},
           {"kept", p.kept},
           {"threads", p.threads},
           {"conditions", to_json(p.conditions)},
           {"no_counters", p.no_counters},
           {"peaks",
            {{"gflops", p.peaks.gflops},
             {"l2_gbps", p.peaks.l2_gbps},
             {"l3_gbps", p.peaks.l3_gbps},
             {"dram_gbps", p.peaks.dram_gbps},
             {"region_us", p.peaks.region_us},
             {"l2_bytes", p.peaks.l2_bytes},
             {"l3_bytes", p.peaks.l3_bytes}}},
           {"memory",
            {{"arena_bytes", p.arena_bytes},
             {"constants_bytes", p.constants_bytes},
             {"scratch_bytes", p.scratch_bytes},
             {"code_bytes", p.code_bytes},
             {"arena", arena}}},
           {"rows", rows},
           {"timeline", timeline}};
  if (p.elsewhere) leave_out(out);
  if (p.tuning)
    out["tuning"] = {{"summary", p.tuning->summary}, {"lines", p.tuning->lines}, {"action", p.tuning->action}};
  return out;
}

std::string to_csv(const Profile& p) {
  std::string out =
      "kind,name,ops,problem,schedule,shapes,layouts,hash,count,duration_ms,p10_ms,p90_ms,percent,barrier_ms,"
      "gap_before_ms,threads,balance,flops,gflops,bytes,gbps,bound,bound_ms,share_of_bound,schedule_from,beats_bound,"
      "quiet,disturbed_percent,best_run_ms\n";
  const Conditions& c = p.conditions;
  const std::string quiet = fmt::format("{},{:.1f},{:.6f}", name(quietness(c)), 100 * disturbed_share(c), c.best_ms);
  for (const Row& r : p.rows) {
    for (const std::string& text :
         {std::string(name(r.kind)), r.label(), r.ops, r.problem, r.schedule, r.shapes, r.layouts, r.key}) {
      out += csv_cell(text) + ",";
    }
    const auto here = [&](std::string text) { return p.elsewhere ? std::string() : text; };
    out += fmt::format("{},{:.6f},{:.6f},{:.6f},{:.3f},{},{:.6f},{},{},{},{:.3f},{},{:.3f},{},{},{},{},{},{}\n",
                       r.count, r.time.mean, r.time.low, r.time.high, r.percent,
                       here(fmt::format("{:.6f}", r.barrier_ms)), r.gap_ms, here(fmt::format("{}", r.threads)),
                       here(fmt::format("{:.3f}", r.balance)), r.flops, r.gflops(), r.bytes, r.gbps(),
                       csv_cell(r.bound.level), fmt::format("{:.6f}", r.bound.ms), fmt::format("{:.4f}", r.share()),
                       r.schedule.empty() ? "" : name(r.from()), fmt::format("{}", r.beats_bound()), quiet);
  }
  return out;
}

json to_trace(const Profile& p) {
  json events = json::array();
  events.push_back(
      {{"ph", "M"}, {"name", "process_name"}, {"pid", 1}, {"tid", 0}, {"args", {{"name", "kilter " + p.model}}}});
  for (int t = 0; t < p.threads; ++t) {
    events.push_back({{"ph", "M"},
                      {"name", "thread_name"},
                      {"pid", 1},
                      {"tid", t},
                      {"args", {{"name", t == 0 ? std::string("thread 0 (caller)") : fmt::format("thread {}", t)}}}});
  }
  for (const Event& e : p.timeline) {
    const Row& r = p.rows[e.row];
    events.push_back(
        {{"ph", "X"},
         {"name", r.label()},
         {"cat", name(r.kind)},
         {"pid", 1},
         {"tid", e.thread},
         {"ts", e.begin_us},
         {"dur", e.end_us - e.begin_us},
         {"args", {{"ops", r.ops}, {"problem", r.problem}, {"schedule", r.schedule}, {"mean_ms", r.time.mean}}}});
  }
  return {{"traceEvents", events}, {"displayTimeUnit", "ms"}, {"otherData", {{"conditions", to_json(p.conditions)}}}};
}

}  // namespace kilter::profile
