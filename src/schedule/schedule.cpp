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
    fail(ErrorKind::usage, "{}: '{}' is the suffix of several names; legal values are {}", option, name,
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

/// The best schedule, according to the template's model, that is not forbidden; nullopt if there is none.
std::optional<Schedule> best_allowed(const Analysed& analysed, std::span<const Forbidden> forbidden) {
  for (Ranked& r : rank(analysed, forbidden.empty() ? 1 : SIZE_MAX)) {
    if (forbids(forbidden, analysed.task().node().name, r.schedule) == nullptr) return std::move(r.schedule);
  }
  return std::nullopt;
}

/// Returns the schedule that a template picks for a task. If it picks none, or a forbidden one, returns the best
/// schedule according to its model. Avoids forbidden schedules unless all are forbidden.
Result<Schedule> own_pick(const Analysed& analysed, std::span<const Forbidden> forbidden = {}) {
  auto picked = analysed.pick();
  if (picked && forbids(forbidden, analysed.task().node().name, *picked) == nullptr) return picked;
  if (auto allowed = best_allowed(analysed, forbidden)) return std::move(*allowed);
  if (picked) return picked;
  if (auto any = best_allowed(analysed, {})) return std::move(*any);
  return picked;
}

/// Throws usage, saying why a forced template without knobs does not accept the task.
[[noreturn]] void not_taken(const Template& from, const Task& task, const CpuLimits& limits, const Rejected& why) {
  std::vector<std::string_view> others;
  for (const Template* t : all_templates()) {
    const auto analysed = t->analyse(task, limits);
    if (analysed && own_pick(**analysed)) others.push_back(t->name);
  }
  others.emplace_back("reference");
  fail(ErrorKind::usage, "'{}' does not apply: {}; legal values are {}", from.name, why.text(),
       fmt::join(others, ", "));
}

const Template* known_template(const Schedule& forced) {
  const Template* found = find_template(forced.name);
  if (found == nullptr)
    fail(ErrorKind::usage, "no template '{}'; legal values are {}, reference", forced.name, template_names());
  return found;
}

Chosen force(const Task& task, const CpuLimits& limits, const Schedule& forced, std::span<const Forbidden> forbidden) {
  const Template* t = known_template(forced);
  const auto refuse = [&](const Rejected& why) {
    if (forced.knobs.empty()) not_taken(*t, task, limits, why);
    fail(ErrorKind::usage, "'{}' does not apply: {}", forced.text(), why.text());
  };
  const auto analysed = t->analyse(task, limits);
  if (!analysed) refuse(analysed.rejected());
  const auto wanted = forced.knobs.empty() ? own_pick(**analysed, forbidden) : forced;
  if (!wanted) refuse(wanted.rejected());
  auto lowered = (*analysed)->lower(*wanted);
  if (!lowered) fail(ErrorKind::usage, "'{}' does not apply: {}", wanted->text(), lowered.rejected().text());
  return {in_order(*wanted, (*analysed)->space()), *std::move(lowered), {}};
}

}  // namespace

Result<Lowered> Analysed::lower(const Schedule& schedule) const {
  if (auto rejected = check_knobs(schedule, space())) return *rejected;
  if (auto rejected = conflict(schedule)) return *rejected;
  return emit(schedule);
}

Result<Estimate> Analysed::estimate(const Schedule& schedule) const {
  if (auto rejected = check_knobs(schedule, space())) return *rejected;
  if (auto rejected = conflict(schedule)) return *rejected;
  return model(schedule);
}

Result<Schedule> Template::pick(const Task& task, const CpuLimits& limits) const {
  const auto analysed = analyse(task, limits);
  return analysed ? (*analysed)->pick() : analysed.rejected();
}

Result<Lowered> Template::lower(const Task& task, const Schedule& schedule, const CpuLimits& limits) const {
  const auto analysed = analyse(task, limits);
  return analysed ? (*analysed)->lower(schedule) : analysed.rejected();
}

Result<Schedule> default_pick(const Template& from, const Analysed& analysed, Accuracy accuracy,
                              std::span<const Forbidden> forbidden) {
  auto picked = analysed.pick();
  if (!picked) return picked;
  if (from.approximates != nullptr && accuracy == Accuracy::strict) return Rejected{"accuracy", "default", "strict"};
  const Forbidden* barred = forbids(forbidden, analysed.task().node().name, *picked);
  if (barred == nullptr) return picked;
  const Rejected rejected{std::string(kForbid), "allowed schedules", barred->text()};
  if (barred->schedule.knobs.empty()) return rejected;
  if (auto allowed = best_allowed(analysed, forbidden)) return std::move(*allowed);
  return rejected;
}

Chosen choose(const Task& task, const CpuLimits& limits, const std::optional<Schedule>& forced, Accuracy accuracy,
              std::span<const Forbidden> forbidden) {
  if (forced && forced->name != "reference") return force(task, limits, *forced, forbidden);
  Chosen chosen;
  const bool reference = forced.has_value();
  for (const Template* t : reference ? std::span<const Template* const>() : all_templates()) {
    const auto analysed = t->analyse(task, limits);
    const auto picked = analysed ? default_pick(*t, **analysed, accuracy, forbidden) : analysed.rejected();
    auto lowered = picked ? (*analysed)->lower(*picked) : picked.rejected();
    if (lowered) {
      chosen.schedule = *picked;
      chosen.lowered = *std::move(lowered);
      return chosen;
    }
    chosen.rejected.emplace_back(t->name, lowered.rejected());
  }
  chosen.schedule.name = "reference";
  return chosen;
}

bool takes(const Task& task, const Schedule& forced, const CpuLimits& limits) {
  if (forced.name == "reference") return task.node().op->movement != Movement::relayout;
  const auto analysed = known_template(forced)->analyse(task, limits);
  if (!analysed) return false;
  const auto wanted = forced.knobs.empty() ? own_pick(**analysed) : forced;
  return wanted && (*analysed)->lower(*wanted);
}

std::optional<Estimate> estimate_of(const Task& task, const Schedule& schedule, const CpuLimits& limits) {
  const Template* from = find_template(schedule.name);
  if (from == nullptr) return std::nullopt;
  const auto analysed = from->analyse(task, limits);
  if (!analysed) return std::nullopt;
  const auto estimate = (*analysed)->estimate(schedule);
  return estimate ? std::optional(*estimate) : std::nullopt;
}

std::vector<Ranked> rank(const Analysed& analysed, size_t most) {
  std::vector<Ranked> all;
  for (Schedule& schedule : analysed.candidates()) {
    const auto known = [&](const Ranked& r) { return r.schedule == schedule; };
    if (std::any_of(all.begin(), all.end(), known)) continue;
    if (const auto estimate = analysed.estimate(schedule)) all.push_back({std::move(schedule), *estimate});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Ranked& a, const Ranked& b) { return a.estimate.cycles < b.estimate.cycles; });
  if (all.size() > most) all.resize(most);
  return all;
}

std::vector<Ranked> rank(const Template& from, const Task& task, const CpuLimits& limits, size_t most) {
  const auto analysed = from.analyse(task, limits);
  return analysed ? rank(**analysed, most) : std::vector<Ranked>{};
}

Packing packed_by(Recipe recipe, ValueId from, std::string form, DType type, const Tensor& source) {
  Packing made{from, std::move(form), type, elems(recipe), {}, std::move(recipe)};
  made.fill = [source, type, recipe = *made.recipe](std::byte* to) {
    pack(recipe, source.dtype(), source.raw(), type, to);
  };
  return made;
}

}  // namespace kilter
