#include "tune/tuner/apply.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "base/text.h"
#include "codegen/llvm/backend.h"
#include "compile/tasks.h"

namespace kilter::tune {
namespace {

/// Days since 1970 of "2026-03-01T12:34:56Z"; nothing for another text.
std::optional<int64_t> day_of(std::string_view date) {
  const std::vector<std::string_view> parts = split(date.substr(0, 10), '-');
  if (parts.size() != 3) return std::nullopt;
  const auto year = try_parse_int(parts[0]), month = try_parse_int(parts[1]), day = try_parse_int(parts[2]);
  if (!year || !month || !day) return std::nullopt;
  const std::chrono::year_month_day all{std::chrono::year(static_cast<int>(*year)),
                                        std::chrono::month(static_cast<unsigned>(*month)),
                                        std::chrono::day(static_cast<unsigned>(*day))};
  if (!all.ok()) return std::nullopt;
  return std::chrono::sys_days(all).time_since_epoch().count();
}

/// "2026-03-01 (3 days before)".
std::string date_text(const std::string& date, const std::string& now) {
  const auto then = day_of(date), today = day_of(now);
  if (!then) return "at an unknown date";
  const std::string day = "on " + date.substr(0, 10);
  if (!today || *today < *then) return day;
  if (*today == *then) return day + " (the same day)";
  return fmt::format("{} ({} day{} before)", day, *today - *then, *today - *then == 1 ? "" : "s");
}

/// One task's answer.
struct Answered {
  std::optional<Schedule> schedule;  ///< none: the default
  Match match;
  bool tuned = false;  ///< with none: records of the very task are there, and the default won
};

/// "0.900 (0.890 to 0.910) of the default's time".
std::string ratio_text(const Ratio& r) {
  return fmt::format("{:.3f} ({:.3f} to {:.3f}) of the default's time", r.value, r.low, r.high);
}

class Applier {
 public:
  Applier(const CompileOptions& compile, const Matcher& matcher, const ApplyOptions& options)
      : compile_(compile), matcher_(matcher), options_(options), now_(options.now.empty() ? iso_date() : options.now) {}

  void task(const Task& task, const Step& step) {
    ++tasks_;
    const std::string& node = task.node().name;
    const std::string key = step.problem + "|" + step.layouts;
    auto known = answers_.find(key);
    if (known == answers_.end() || !compile_.forbidden.empty())
      known = answers_.insert_or_assign(key, find(task, step)).first;
    const Answered& answer = known->second;
    if (!answer.schedule) {
      ++(answer.tuned ? default_won_ : untuned_);
      return;
    }
    const Match& m = answer.match;
    out_.schedules[node] = *answer.schedule;
    out_.words[node] = words(m);
    if (std::ranges::find(m.differences, Distance::threads) != m.differences.end())
      ++by_threads_[m.record.conditions.threads];
    ++by_distance_[m.distance].first;
    by_distance_[m.distance].second = std::max(by_distance_[m.distance].second, m.loss_percent);
  }

  Recorded finish() {
    int64_t found = 0;
    std::vector<std::string> parts;
    for (const auto& [distance, count] : by_distance_) {
      found += count.first;
      parts.push_back(distance == Distance::exact ? fmt::format("{} exact", count.first)
                                                  : fmt::format("{} that differ in {}, expected loss up to {:.0f} %",
                                                                count.first, name(distance), count.second));
    }
    out_.summary = fmt::format("{}: {} of {} tasks", options_.file, found, tasks_);
    if (!parts.empty()) out_.summary += fmt::format(" ({})", fmt::join(parts, ", "));
    for (const auto& [threads, count] : by_threads_) {
      out_.summary +=
          fmt::format("; {} tuned at {}, used at {}", count,
                      threads == 0 ? "an unknown number of threads" : threads_text(threads), options_.threads);
    }
    if (default_won_ > 0) out_.summary += fmt::format("; {} tuned, where the default won", default_won_);
    if (untuned_ > 0) {
      out_.summary += fmt::format("; the other {}: analytic defaults", untuned_);
      if (!options_.tune.empty()) out_.summary += fmt::format(", `{}` tunes them", options_.tune);
    }
    return std::move(out_);
  }

 private:
  Answered find(const Task& task, const Step& step) const {
    Answered out;
    const Query query{step.problem,    step.layouts,     compile_.target.name,
                      options_.device, options_.threads, codegen_version()};
    for (const Match& m : matcher_.matches(query)) {
      // A record says how much faster than the default it was; one that was not, is not used.
      if (m.record.versus && m.record.versus->ratio.high >= 1) {
        out.tuned = out.tuned || m.distance < Distance::threads;
        continue;
      }
      const Schedule schedule = parse_schedule(m.record.schedule);
      if (lowers(task, schedule, compile_)) return {schedule, m};
    }
    return out;
  }

  std::string words(const Match& m) const {
    const Record& r = m.record;
    std::string out = fmt::format("{}; measured {}", m.words, date_text(r.conditions.date, now_));
    if (r.conditions.threads > 0) out += " at " + threads_text(r.conditions.threads);
    if (!r.network.empty()) out += " in " + r.network;
    if (!r.conditions.weights.empty()) out += ", weights " + r.conditions.weights;
    if (r.versus) {
      out += fmt::format(": {} there, {} pair{}", ratio_text(r.versus->ratio), r.samples_ms.size(),
                         r.samples_ms.size() == 1 ? "" : "s");
    }
    return out;
  }

  const CompileOptions& compile_;
  const Matcher& matcher_;
  const ApplyOptions& options_;
  std::string now_;
  std::map<std::string, Answered> answers_;  ///< by problem and layouts
  std::map<Distance, std::pair<int64_t, double>> by_distance_;
  std::map<int, int64_t> by_threads_;  ///< tasks whose record has another number of threads, by that
  int64_t tasks_ = 0, default_won_ = 0, untuned_ = 0;
  Recorded out_;
};

}  // namespace

std::string threads_text(int threads) { return fmt::format("{} thread{}", threads, threads == 1 ? "" : "s"); }

bool lowers(const Task& task, const Schedule& schedule, const CompileOptions& compile) {
  const Template* from = find_template(schedule.name);
  if (from == nullptr) return false;
  if (from->approximates != nullptr && compile.accuracy == Accuracy::strict) return false;
  if (forbids(compile.forbidden, task.node().name, schedule) != nullptr) return false;
  const auto space = from->space(task, compile.target.limits);
  const auto* knobs = std::get_if<std::vector<Knob>>(&space);
  if (knobs == nullptr || check_knobs(schedule, *knobs)) return false;
  return std::holds_alternative<Lowered>(from->lower(task, schedule, compile.target.limits));
}

Recorded apply_records(const PassedGraph& passed, const CompileOptions& compile, const Matcher& matcher,
                       const ApplyOptions& options) {
  CompileOptions look = compile;
  look.generate_code = false;
  look.keep_placed = true;
  const Compiled compiled = compile_passed(passed, look);
  std::map<std::string, const Step*> steps;
  for (const Step& step : compiled.plan.steps) {
    if (step.kind == StepKind::kernel) steps.emplace(step.name, &step);
  }
  Applier applier(compile, matcher, options);
  for (const Task& task : tasks_of(compiled.placed->graph, compiled.placed->storage)) {
    const auto step = steps.find(task.node().name);
    if (step != steps.end() && !compile.schedules.contains(step->first)) applier.task(task, *step->second);
  }
  return applier.finish();
}

Choices allowed(Choices choices, const std::vector<Forbidden>& forbidden) {
  return without_schedules(std::move(choices), [&](const std::string& node, const Schedule& schedule) {
    return forbids(forbidden, node, schedule) != nullptr;
  });
}

Choices without_schedules(Choices choices, const std::function<bool(const std::string&, const Schedule&)>& goes) {
  for (auto& [node, choice] : choices) {
    if (choice.schedule && goes(node, *choice.schedule)) choice.schedule.reset();
  }
  std::erase_if(choices, [](const auto& entry) { return entry.second == LayerChoice(); });
  return choices;
}

Recorded recorded_plan(const KeptPlan& kept, const Choices& choices, const ApplyOptions& options) {
  std::string accepted = "accepted " + date_text(kept.date, options.now.empty() ? iso_date() : options.now);
  if (kept.choices.empty()) {
    return {
        {},
        {},
        fmt::format("{}: the plan {}: nothing was faster than the default plan, which stays", options.file, accepted)};
  }
  accepted += fmt::format(": the network took {} in its race", ratio_text(kept.default_ratio));
  Recorded out = recorded_choices(choices, accepted);
  out.summary = fmt::format("{}: the plan {}; {} from the default", options.file, accepted,
                            choices.size() == 1 ? "1 layer differs" : fmt::format("{} layers differ", choices.size()));
  if (choices.size() < kept.choices.size())
    out.summary += fmt::format(", {} more forbidden", kept.choices.size() - choices.size());
  return out;
}

Recorded recorded_choices(const Choices& choices, const std::string& from) {
  Recorded out;
  for (const auto& [node, choice] : choices) {
    out.words[node] = from;
    if (choice.schedule) out.schedules.emplace(node, *choice.schedule);
  }
  out.summary = fmt::format("{}: {} layers", from, choices.size());
  return out;
}

}  // namespace kilter::tune
