#include "schedule/schedule.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace kilter {

int64_t Schedule::knob(std::string_view key) const {
  for (const auto& [k, v] : knobs) {
    if (k == key) return v;
  }
  require(false, "schedule '{}' has no knob '{}'", text(), key);
  return 0;
}

std::string Schedule::text() const {
  std::string out = name;
  for (const auto& [key, value] : knobs) out += fmt::format(" {}={}", key, value);
  return out;
}

namespace {

/// Reads a schedule. Returns what is wrong with the text; empty if nothing is.
std::string read_schedule(std::string_view text, Schedule& schedule) {
  for (const std::string_view word : split(text, ' ')) {
    if (word.empty()) continue;
    if (schedule.name.empty()) {
      schedule.name = word;
      continue;
    }
    const size_t equals = word.find('=');
    const auto value = equals == std::string_view::npos ? std::nullopt : try_parse_int(word.substr(equals + 1));
    if (!value || equals == 0) {
      return fmt::format(
          "schedule '{}': expected knob=INTEGER, got '{}'; write it as `kilter inspect` and profiles print it", text,
          word);
    }
    const std::string_view key = word.substr(0, equals);
    if (std::any_of(schedule.knobs.begin(), schedule.knobs.end(), [&](const auto& knob) { return knob.first == key; }))
      return fmt::format("schedule '{}': knob '{}' is given twice; give it once", text, key);
    schedule.knobs.emplace_back(key, *value);
  }
  return schedule.name.empty() ? "schedule: expected 'template knob=value ...', got nothing" : "";
}

}  // namespace

Schedule parse_schedule(std::string_view text) {
  Schedule schedule;
  const std::string fault = read_schedule(text, schedule);
  if (!fault.empty()) fail(ErrorKind::usage, "{}", fault);
  return schedule;
}

std::optional<Schedule> try_parse_schedule(std::string_view text) {
  Schedule schedule;
  if (!read_schedule(text, schedule).empty()) return std::nullopt;
  return schedule;
}

const Template* find_template(std::string_view name) {
  for (const Template* t : all_templates()) {
    if (t->name == name) return t;
  }
  return nullptr;
}

bool covers(const Schedule& pattern, const Schedule& schedule) {
  if (pattern.name != schedule.name) return false;
  return pattern.knobs.empty() ||
         (pattern.knobs.size() == schedule.knobs.size() && std::ranges::is_permutation(pattern.knobs, schedule.knobs));
}

namespace {

std::string template_names() {
  std::vector<std::string_view> names;
  for (const Template* t : all_templates()) names.push_back(t->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

const Template* template_of(std::string_view name, std::string_view option) {
  if (const Template* exact = find_template(name)) return exact;
  std::vector<std::string_view> names;
  for (const Template* t : all_templates()) {
    if (!name.empty() && t->name.ends_with(fmt::format("_{}", name))) names.push_back(t->name);
  }
  if (names.size() > 1)
    fail(ErrorKind::usage, "{}: '{}' is the end of several names; legal values are {}", option, name,
         fmt::join(names, ", "));
  return names.empty() ? nullptr : find_template(names.front());
}

Forbidden parse_forbidden(const std::string& text) {
  const size_t at = text.rfind('@');
  const std::string written = text.substr(0, at), node = at == std::string::npos ? "" : text.substr(at + 1);
  const std::string option = "--forbid " + text;
  const Template* found = template_of(written.substr(0, written.find(' ')), option);
  if (found == nullptr || (at != std::string::npos && node.empty())) {
    fail(ErrorKind::usage, "{}: expected TEMPLATE, TEMPLATE@NODE or SCHEDULE@NODE; templates are {}", option,
         template_names());
  }
  Forbidden out{parse_schedule(written), node == "*" ? "" : node};
  out.schedule.name = found->name;
  return out;
}

const Forbidden* forbids(std::span<const Forbidden> all, std::string_view node, const Schedule& schedule) {
  const auto it = std::ranges::find_if(
      all, [&](const Forbidden& f) { return (f.node.empty() || f.node == node) && covers(f.schedule, schedule); });
  return it == all.end() ? nullptr : &*it;
}

std::optional<Rejected> check_knobs(const Schedule& schedule, const std::vector<Knob>& space) {
  for (const auto& [key, value] : schedule.knobs) {
    const auto it = std::find_if(space.begin(), space.end(), [&](const Knob& k) { return k.name == key; });
    if (it == space.end()) {
      std::vector<std::string> names;
      for (const Knob& k : space) names.push_back(k.name);
      return Rejected{"knob of " + schedule.name, fmt::format("one of {}", fmt::join(names, ", ")), key};
    }
    if (std::find(it->values.begin(), it->values.end(), value) == it->values.end()) {
      return Rejected{fmt::format("{} knob {}", schedule.name, key),
                      fmt::format("one of {}", fmt::join(it->values, ", ")), std::to_string(value)};
    }
  }
  for (const Knob& k : space) {
    const auto has = [&](const auto& pair) { return pair.first == k.name; };
    if (std::none_of(schedule.knobs.begin(), schedule.knobs.end(), has)) {
      return Rejected{fmt::format("{} knob {}", schedule.name, k.name),
                      fmt::format("one of {}", fmt::join(k.values, ", ")), "nothing"};
    }
  }
  return std::nullopt;
}

namespace {

/// Sorts knobs into the template's order, so that equal schedules have one text and one kernel key.
Schedule in_order(const Schedule& schedule, const std::vector<Knob>& space) {
  Schedule sorted{schedule.name, {}};
  for (const Knob& knob : space) sorted.knobs.emplace_back(knob.name, schedule.knob(knob.name));
  return sorted;
}

/// The best schedule by the template's model that is not forbidden; nullopt if there is none.
std::optional<Schedule> best_allowed(const Template& from, const Task& task, const TargetLimits& limits,
                                     std::span<const Forbidden> forbidden) {
  for (Ranked& r : rank(from, task, limits, forbidden.empty() ? 1 : SIZE_MAX)) {
    if (forbids(forbidden, task.node().name, r.schedule) == nullptr) return std::move(r.schedule);
  }
  return std::nullopt;
}

/// Returns the schedule that a template picks for a task, or the best by its model if its pick would not be the
/// default. Avoids forbidden schedules unless all are forbidden.
Answer<Schedule> own_pick(const Template& from, const Task& task, const TargetLimits& limits,
                          std::span<const Forbidden> forbidden = {}) {
  const auto space = from.space(task, limits);
  if (const auto* rejected = std::get_if<Rejected>(&space)) return *rejected;
  auto picked = from.pick(task, limits);
  const auto* schedule = std::get_if<Schedule>(&picked);
  if (schedule != nullptr && forbids(forbidden, task.node().name, *schedule) == nullptr) return picked;
  if (auto allowed = best_allowed(from, task, limits, forbidden)) return std::move(*allowed);
  if (schedule != nullptr) return picked;
  if (auto any = best_allowed(from, task, limits, {})) return std::move(*any);
  return picked;
}

/// The template's own choice of knobs, for a forced template without knobs. Throws usage if it does not take the task.
Schedule with_knobs(const Template& from, const Task& task, const TargetLimits& limits,
                    std::span<const Forbidden> forbidden) {
  const auto own = own_pick(from, task, limits, forbidden);
  if (const auto* schedule = std::get_if<Schedule>(&own)) return *schedule;
  std::vector<std::string_view> others;
  for (const Template* t : all_templates()) {
    if (std::holds_alternative<Schedule>(own_pick(*t, task, limits))) others.push_back(t->name);
  }
  others.emplace_back("reference");
  fail(ErrorKind::usage, "'{}' does not take it: {}; legal values are {}", from.name, std::get<Rejected>(own).text(),
       fmt::join(others, ", "));
}

const Template* known_template(const Schedule& forced) {
  const Template* found = find_template(forced.name);
  if (found == nullptr)
    fail(ErrorKind::usage, "no template '{}'; legal values are {}, reference", forced.name, template_names());
  return found;
}

Chosen force(const Task& task, const TargetLimits& limits, const Schedule& forced,
             std::span<const Forbidden> forbidden) {
  const Template* t = known_template(forced);
  const Schedule wanted = forced.knobs.empty() ? with_knobs(*t, task, limits, forbidden) : forced;
  auto lowered = t->lower(task, wanted, limits);
  if (const auto* rejected = std::get_if<Rejected>(&lowered)) {
    fail(ErrorKind::usage, "'{}' does not apply: {}", wanted.text(), rejected->text());
  }
  const auto space = t->space(task, limits);
  return {in_order(wanted, std::get<std::vector<Knob>>(space)), std::move(std::get<Lowered>(lowered)), {}};
}

}  // namespace

Answer<Schedule> default_pick(const Template& from, const Task& task, const TargetLimits& limits, Accuracy accuracy,
                              std::span<const Forbidden> forbidden) {
  auto picked = from.pick(task, limits);
  const auto* schedule = std::get_if<Schedule>(&picked);
  if (schedule == nullptr) return picked;
  if (from.approximates != nullptr && accuracy == Accuracy::strict) return Rejected{"accuracy", "default", "strict"};
  const Forbidden* barred = forbids(forbidden, task.node().name, *schedule);
  if (barred == nullptr) return picked;
  const Rejected rejected{std::string(kForbid), "what is not forbidden", barred->text()};
  if (barred->schedule.knobs.empty()) return rejected;
  if (auto allowed = best_allowed(from, task, limits, forbidden)) return std::move(*allowed);
  return rejected;
}

Chosen choose(const Task& task, const TargetLimits& limits, const std::optional<Schedule>& forced, Accuracy accuracy,
              std::span<const Forbidden> forbidden) {
  if (forced && forced->name != "reference") return force(task, limits, *forced, forbidden);
  Chosen chosen;
  const bool reference = forced.has_value();
  for (const Template* t : reference ? std::span<const Template* const>() : all_templates()) {
    auto picked = default_pick(*t, task, limits, accuracy, forbidden);
    if (const auto* schedule = std::get_if<Schedule>(&picked)) {
      auto lowered = t->lower(task, *schedule, limits);
      if (auto* done = std::get_if<Lowered>(&lowered)) {
        chosen.schedule = *schedule;
        chosen.lowered = std::move(*done);
        return chosen;
      }
      chosen.rejected.emplace_back(t->name, std::get<Rejected>(lowered));
    } else {
      chosen.rejected.emplace_back(t->name, std::get<Rejected>(picked));
    }
  }
  chosen.schedule.name = "reference";
  return chosen;
}

bool takes(const Task& task, const Schedule& forced, const TargetLimits& limits) {
  if (forced.name == "reference") return task.node().op->movement != Movement::relayout;
  const Template* from = known_template(forced);
  const auto wanted = forced.knobs.empty() ? own_pick(*from, task, limits) : Answer<Schedule>(forced);
  const auto* schedule = std::get_if<Schedule>(&wanted);
  return schedule != nullptr && std::holds_alternative<Lowered>(from->lower(task, *schedule, limits));
}

std::optional<Estimate> estimate_of(const Task& task, const Schedule& schedule, const TargetLimits& limits) {
  const Template* from = find_template(schedule.name);
  if (from == nullptr || from->estimate == nullptr) return std::nullopt;
  const auto answer = from->estimate(task, schedule, limits);
  const auto* estimate = std::get_if<Estimate>(&answer);
  return estimate == nullptr ? std::nullopt : std::optional(*estimate);
}

std::vector<Ranked> rank(const Template& from, const Task& task, const TargetLimits& limits, size_t most) {
  std::vector<Ranked> all;
  if (from.candidates == nullptr || from.estimate == nullptr) return all;
  for (Schedule& schedule : from.candidates(task, limits)) {
    const auto known = [&](const Ranked& r) { return r.schedule == schedule; };
    if (std::any_of(all.begin(), all.end(), known)) continue;
    const auto estimate = from.estimate(task, schedule, limits);
    if (const auto* e = std::get_if<Estimate>(&estimate)) all.push_back({std::move(schedule), *e});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Ranked& a, const Ranked& b) { return a.estimate.cycles < b.estimate.cycles; });
  if (all.size() > most) all.resize(most);
  return all;
}

}  // namespace kilter
