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

/// What is wrong with the text; empty for one that was read.
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

/// The knobs in the template's order, however they were written: equal schedules have one text and one kernel key.
Schedule in_order(const Schedule& schedule, const std::vector<Knob>& space) {
  Schedule sorted{schedule.name, {}};
  for (const Knob& knob : space) sorted.knobs.emplace_back(knob.name, schedule.knob(knob.name));
  return sorted;
}

}  // namespace

Chosen choose(const Task& task, const TargetLimits& limits, const std::optional<Schedule>& forced, Accuracy accuracy) {
  Chosen chosen;
  if (forced && forced->name != "reference") {
    const Template* t = find_template(forced->name);
    if (t == nullptr) {
      std::vector<std::string_view> names;
      for (const Template* known : all_templates()) names.push_back(known->name);
      fail(ErrorKind::usage, "--schedule {}: no template '{}'; legal are {}, reference", task.node().name, forced->name,
           fmt::join(names, ", "));
    }
    auto lowered = t->lower(task, *forced, limits);
    if (const auto* rejected = std::get_if<Rejected>(&lowered)) {
      fail(ErrorKind::usage, "--schedule {}: '{}' does not apply: {}", task.node().name, forced->text(),
           rejected->text());
    }
    const auto space = t->space(task, limits);
    chosen.schedule = in_order(*forced, std::get<std::vector<Knob>>(space));
    chosen.lowered = std::move(std::get<Lowered>(lowered));
    return chosen;
  }
  if (!forced) {
    for (const Template* t : all_templates()) {
      auto picked = t->pick(task, limits);
      if (t->approximates != nullptr && accuracy == Accuracy::strict && std::holds_alternative<Schedule>(picked))
        picked = Rejected{"accuracy", "default", "strict"};
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
  }
  chosen.schedule.name = "reference";
  return chosen;
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
