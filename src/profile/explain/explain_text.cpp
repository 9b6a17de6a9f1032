#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/text_table.h"
#include "profile/explain/explain_causes.h"
#include "profile/table.h"

namespace kilter::profile {
namespace {

using nlohmann::json;

constexpr size_t kMostOfAKind = 10;

std::string gain_text(const Finding& f) {
  if (!f.measured) {
    if (f.gain_ms <= 0) return "";
    if (f.kind == Finding::Kind::first)
      return fmt::format("  the best run is {} ({:.1f} %) faster than this figure\n", ms_text(f.gain_ms),
                         f.gain_percent);
    return fmt::format("  {} -{}, -{:.1f} % (predicted)\n", f.kind == Finding::Kind::fact ? "at most" : "gain",
                       ms_text(f.gain_ms), f.gain_percent);
  }
  if (f.interval.low <= 0 && f.interval.high >= 0)
    return fmt::format("  no significant gain: {:+.1f} % (measured, 95 % interval {:+.1f} to {:+.1f})\n",
                       -f.gain_percent, -100 * f.interval.high, -100 * f.interval.low);
  return fmt::format("  gain {}{}, {:+.1f} % (measured, 95 % interval {:+.1f} to {:+.1f})\n", f.gain_ms > 0 ? "-" : "+",
                     ms_text(std::abs(f.gain_ms)), -f.gain_percent, -100 * f.interval.high, -100 * f.interval.low);
}

std::string finding_text(size_t number, const Finding& f) {
  std::string out = fmt::format("{:>2}. {}: {}\n", number, f.name, f.cause);
  out += fmt::format("      {}\n", f.evidence);
  if (const std::string gain = gain_text(f); !gain.empty()) out += "    " + gain;
  if (!f.advice.empty()) out += fmt::format("      {}\n", f.advice);
  if (!f.action.empty()) out += fmt::format("      $ {}\n", f.action);
  return out;
}

/// `width`: of the terminal; 0: no limit.
std::string split_text(const Explanation& e, size_t width) {
  constexpr size_t kFigures = 46, kBar = 40;
  const size_t room = width == 0 ? kBar : std::clamp(width, kFigures + 8, kFigures + kBar) - kFigures;
  std::string out = "Where the time goes\n";
  for (const Part& p : e.split) {
    const auto bar = static_cast<size_t>(std::max(p.percent, 0.0) * 0.01 * static_cast<double>(room) + 0.5);
    out += fmt::format("  {:<18} {:>10.4f} ms {:>6.1f} %  {}\n", p.what, p.ms, p.percent, std::string(bar, '#'));
  }
  return out + fmt::format("  {:<18} {:>10.4f} ms\n", "sum", e.profile.sum_ms);
}

std::string heading(Finding::Kind kind) {
  return kind == Finding::Kind::fact    ? "What else takes time; nothing can be done about it in this version\n"
         : kind == Finding::Kind::trade ? "What would be faster and changes the results\n"
                                        : "What to do next, largest gain first\n";
}

std::string findings_text(const Explanation& e) {
  using Kind = Finding::Kind;
  std::string out;
  size_t hidden = 0;
  for (const Kind kind : {Kind::action, Kind::trade, Kind::fact}) {
    const bool actions = kind == Kind::action;
    size_t number = 0;
    std::string part;
    for (const Finding& f : e.findings) {
      if (f.kind != kind && !(actions && f.kind == Kind::first)) continue;
      if (number == kMostOfAKind) {
        ++hidden;
        continue;
      }
      part += finding_text(++number, f);
    }
    if (actions && number == 0 && e.withheld.empty()) part = "    nothing in this version was found to help\n";
    if (actions && !e.withheld.empty()) part += "    " + e.withheld + "\n";
    if (!part.empty()) out += (out.empty() ? "" : "\n") + heading(kind) + part;
  }
  if (hidden > 0) out += fmt::format("    ({} more in --json)\n", hidden);
  return out;
}

std::string layers_text(const Explanation& e, const TableStyle& style) {
  std::vector<const LayerView*> slow;
  for (const LayerView& l : e.layers) slow.push_back(&l);
  const auto ms = [&](const LayerView* l) { return e.profile.rows[l->row].time.mean; };
  std::stable_sort(slow.begin(), slow.end(), [&](const LayerView* a, const LayerView* b) { return ms(a) > ms(b); });
  constexpr size_t kMost = 12;
  TextTable table({{.title = "layer", .width = 36, .left = true, .least = 16, .most = 36},
                   {.title = "ms", .width = 10},
                   {.title = "%", .width = 6},
                   {.title = "bound ms", .width = 10, .rank = 2},
                   {.title = "of it", .width = 6},
                   {.title = "schedule", .width = 10, .left = true, .rank = 1, .gap = 2},
                   {.title = "cause", .left = true, .gap = 2}},
                  2);
  for (size_t i = 0; i < std::min(slow.size(), kMost); ++i) {
    const Row& r = e.profile.rows[slow[i]->row];
    table.add({r.label(), fmt::format("{:.4f}", r.time.mean), fmt::format("{:.2f}", r.percent),
               fmt::format("{:.4f}", r.bound.ms), r.bound.kind == Bound::none ? "-" : bound_share_text(r),
               std::string(r.schedule.empty() ? "-" : name(r.from())), slow[i]->causes.front().first});
  }
  return "Slowest layers (--node NAME explains one in full)\n" + table.text(style, "--json has them");
}

/// Lists the layers whose results are not plain sums of products, and how large the error is.
std::string approximations_text(const Explanation& e) {
  struct Users {
    std::vector<std::string> layers;
    double percent = 0;
  };
  std::map<std::string_view, Users> by_error;
  for (const LayerView& l : e.layers) {
    if (l.approximates.empty()) continue;
    const Row& r = e.profile.rows[l.row];
    Users& users = by_error[l.approximates];
    users.percent += r.percent;
    if (users.layers.empty() || users.layers.back() != r.name) users.layers.push_back(r.name);  // one of several stages
  }
  if (by_error.empty()) return "";
  std::string out = "\nApproximations; --accuracy strict avoids them\n";
  for (const auto& [error, users] : by_error) {
    const size_t count = users.layers.size();
    out += fmt::format("  {} layer{}, {:.1f} % of the time: {}\n    {}\n", count, count == 1 ? "" : "s", users.percent,
                       error, fmt::join(users.layers, ", "));
  }
  return out;
}

std::string contenders_text(const Explanation& e, const LayerView& l) {
  const Row& r = e.profile.rows[l.row];
  std::string out = fmt::format("  schedule    {}\n  from        {}\n", r.schedule,
                                r.record.empty() ? "the default of the analytic model" : r.record);
  if (l.predicted_ms > 0)
    out +=
        fmt::format("              the model expects {}, measured {}\n", ms_text(l.predicted_ms), ms_text(r.time.mean));
  if (!l.approximates.empty()) out += fmt::format("  accuracy    approximates: {}\n", l.approximates);
  for (const Contender& c : l.runners_up) {
    out += fmt::format("  runner-up   {}: predicted {}{}\n", c.schedule, ms_text(c.predicted_ms),
                       c.measured_ms > 0 ? ", measured " + ms_text(c.measured_ms) : "");
  }
  for (const auto& [name, why] : l.rejected) out += fmt::format("  rejected    {}: {}\n", name, why.text());
  return out;
}

std::string layer_text(const Explanation& e, const LayerView& l) {
  const Row& r = e.profile.rows[l.row];
  std::string out = fmt::format("{} '{}' ({})\n", r.ops, r.label(), name(r.kind));
  out += fmt::format("  time        {} ({} to {} in 80 % of the runs), {:.2f} % of the sum\n", ms_text(r.time.mean),
                     ms_text(r.time.low), ms_text(r.time.high), r.percent);
  if (r.bound.kind != Bound::none) {
    out += fmt::format("  bound       {} by {} ({}): {} of it is reached\n", ms_text(r.bound.ms), r.bound.level,
                       name(r.bound.kind), percent_text(r.share()));
  }
  out += fmt::format("  work        {:.2f} MFLOP at {:.1f} GFLOP/s, {} at {:.1f} GB/s, {} of weights\n",
                     static_cast<double>(r.flops) * 1e-6, r.gflops(), bytes_text(r.bytes), r.gbps(),
                     bytes_text(r.weight_bytes));
  out += fmt::format("  threads     {}, balance {:.2f}, barriers {}, gap before {}\n", r.threads, r.balance,
                     ms_text(r.barrier_ms), ms_text(r.gap_ms));
  for (const auto& [what, text] : {std::pair{"problem", &r.problem}, {"shapes", &r.shapes}, {"layouts", &r.layouts}}) {
    if (!text->empty()) out += fmt::format("  {:<11} {}\n", what, *text);
  }
  if (!r.schedule.empty()) out += contenders_text(e, l);
  for (const auto& [cause, evidence] : l.causes) out += fmt::format("  {}: {}\n", cause, evidence);
  return out;
}

bool concerns(const Explanation& e, const Finding& f, const std::string& node) {
  return std::any_of(f.steps.begin(), f.steps.end(), [&](int64_t s) {
    return std::any_of(e.profile.rows.begin(), e.profile.rows.end(),
                       [&](const Row& r) { return r.step == s && r.name == node; });
  });
}

std::string whole_text(const Explanation& e, const std::string& node, const TableStyle& style) {
  std::string out;
  if (!node.empty()) {
    const Conditions& c = e.profile.conditions;
    if (quietness(c) == Quietness::busy) out += quiet_text(c, "passes") + "\n\n";
    for (const LayerView& l : e.layers) {
      if (e.profile.rows[l.row].name == node) out += layer_text(e, l) + "\n";
    }
    size_t number = 0;
    for (const Finding& f : e.findings) {
      if (concerns(e, f, node)) out += finding_text(++number, f);
    }
    return out;
  }
  for (const std::string& line : e.summary) out += line + "\n";
  out += "\n" + split_text(e, style.width) + "\n" + findings_text(e) + "\n" + layers_text(e, style) +
         approximations_text(e);
  if (!e.profile.tuning) return out;
  out += "\nTuning\n";
  for (const std::string& line : e.profile.tuning->lines) out += "  " + line + "\n";
  return out + "  $ " + e.profile.tuning->action + "\n";
}

}  // namespace

std::string explanation_text(const Explanation& e, const std::string& node, const TableStyle& style) {
  return fit_lines(whole_text(e, node, style), style.width);
}

namespace {

json finding_json(const Finding& f) {
  constexpr const char* kKinds[] = {"first", "action", "trade", "fact"};
  json out{{"kind", kKinds[static_cast<size_t>(f.kind)]},
           {"step", f.steps.empty() ? -1 : f.steps.front()},
           {"steps", f.steps},
           {"name", f.name},
           {"cause", f.cause},
           {"evidence", f.evidence},
           {"gain_ms", f.gain_ms},
           {"gain_percent", f.gain_percent},
           {"how", f.measured ? "measured" : "predicted"},
           {"advice", f.advice},
           {"action", f.action}};
  if (f.measured) out["gain_percent_interval"] = {100 * f.interval.low, 100 * f.interval.high};
  return out;
}

json layer_json(const Explanation& e, const LayerView& l) {
  const Row& r = e.profile.rows[l.row];
  json causes = json::array(), runners = json::array(), rejected = json::array();
  for (const auto& [cause, evidence] : l.causes) causes.push_back({{"cause", cause}, {"evidence", evidence}});
  for (const Contender& c : l.runners_up) {
    runners.push_back({{"schedule", c.schedule}, {"predicted_ms", c.predicted_ms}});
    if (c.measured_ms > 0) runners.back()["measured_ms"] = c.measured_ms;
  }
  for (const auto& [name, why] : l.rejected)
    rejected.push_back({{"template", name}, {"check", why.check}, {"limit", why.limit}, {"got", why.got}});
  json out{{"row", l.row},           {"step", r.step},
           {"name", r.label()},      {"ms", r.time.mean},
           {"bound_ms", r.bound.ms}, {"bound", r.bound.level},
           {"share", r.share()},     {"causes", causes},
           {"schedule", r.schedule}, {"schedule_from", r.schedule.empty() ? "" : name(r.from())},
           {"record", r.record},     {"runners_up", runners},
           {"rejected", rejected}};
  if (!l.approximates.empty()) out["approximates"] = l.approximates;
  if (l.predicted_ms > 0) out["predicted_ms"] = l.predicted_ms;
  return out;
}

}  // namespace

json to_json(const Explanation& e) {
  json split = json::array(), findings = json::array(), layers = json::array();
  for (const Part& p : e.split) split.push_back({{"what", p.what}, {"ms", p.ms}, {"percent", p.percent}});
  for (const Finding& f : e.findings) findings.push_back(finding_json(f));
  for (const LayerView& l : e.layers) layers.push_back(layer_json(e, l));
  json out = to_json(e.profile);
  out["explain"] = {
      {"summary", e.summary}, {"split", split}, {"findings", findings}, {"withheld", e.withheld}, {"layers", layers}};
  return out;
}

}  // namespace kilter::profile
