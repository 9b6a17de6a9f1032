#include "tune/tuner/plans/apply.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/other_threads.h"
#include "base/text.h"
#include "compile/check_options.h"
#include "compile/code_versions.h"
#include "compile/tasks.h"
#include "schedule/templates/templates.h"
#include "tune/tuner/left.h"

namespace kilter::tune {
namespace {

/// "2026-03-01 (3 days before)".
std::string date_text(const std::string& date, const std::string& now) {
  const auto then = second_of(date.substr(0, 10)), today = second_of(now.substr(0, 10));
  if (!then) return "at an unknown date";
  const std::string day = "on " + date.substr(0, 10);
  if (!today || *today < *then) return day;
  if (*today == *then) return day + " (the same day)";
  const int64_t days = (*today - *then) / (24 * 60 * 60);
  return fmt::format("{} ({} day{} before)", day, days, days == 1 ? "" : "s");
}

/// The result for one task.
struct Answered {
  std::optional<Schedule> schedule;  ///< none: the default
  Match match;
  size_t lost = 0;             ///< schedules that may run and were not faster than the default
  bool tuned = false;          ///< whether records of exactly this task show this for some of those schedules
  bool other_default = false;  ///< records of exactly this task are not comparable with today's default
};

/// Whether the template is known, not forbidden, and allowed by --accuracy.
bool may_run(const Task& task, const Schedule& schedule, const CompileOptions& compile) {
  return find_template(schedule.name) != nullptr && permits(compile, task.node().name, schedule);
}

/// "accepted on 2026-03-01 (3 days before)"; only `done` if the text is shipped.
std::string done_on(std::string_view done, const std::string& date, const ApplyOptions& options) {
  if (options.shipped) return std::string(done);
  return fmt::format("{} {}", done, date_text(date, options.now.empty() ? iso_date() : options.now));
}

/// "record 1a2b3c4d5e6f, exact: tuned under the same conditions; measured on ..."
std::string words_of(const Match& m, const ApplyOptions& options) {
  const Record& r = m.record;
  std::string out = fmt::format("record {}, {}; {}", r.id().substr(0, kShownDigits), m.words,
                                done_on("measured", r.conditions.date, options));
  if (r.conditions.threads > 0) out += " at " + threads_text(r.conditions.threads);
  if (!r.network.empty()) out += " in " + r.network;
  if (!r.conditions.weights.empty()) out += ", weights " + r.conditions.weights;
  if (!m.ratio) return out;
  out += fmt::format(": {} there, {} pair{}", ratio_text(*m.ratio), r.samples_ms.size(),
                     r.samples_ms.size() == 1 ? "" : "s");
  if (m.by_other_default) out += fmt::format(", measured against another default ({})", r.versus->schedule);
  return out;
}

class Applier {
 public:
  Applier(const CompileOptions& compile, const Matcher& matcher, const ApplyOptions& options)
      : compile_(compile), matcher_(matcher), options_(options) {}

  /// `fallback`: the schedule that the task has without records.
  void task(const Task& task, const std::string& fallback) {
    ++tasks_;
    const Query query = query_of(task.problem(), task.layouts(), fallback, compile_, options_);
    if (anchors_.emplace(anchor_of(query.problem)).second) imported_ += matcher_.imported(query.problem);
    const std::string& node = task.node().name;
    const std::string key = query.problem + "|" + query.layouts + "|" + fallback;
    auto known = answers_.find(key);
    if (known == answers_.end() || !compile_.forbidden.empty())
      known = answers_.insert_or_assign(key, find(task, query)).first;
    const Answered& answer = known->second;
    if (!answer.schedule) {
      ++(answer.tuned ? default_won_ : untuned_);
      if (!answer.tuned && answer.other_default) ++other_default_;
      return;
    }
    const Match& m = answer.match;
    out_.choices[node] = {*answer.schedule, {ScheduleSource::record, words_of(m, options_)}};
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
      if (threads == options_.threads) continue;
      out_.summary += fmt::format("; {} tuned at {}, used at {}", count, threads_text(threads), options_.threads);
    }
    if (default_won_ > 0) out_.summary += fmt::format("; {} tuned, but the default won", default_won_);
    if (untuned_ > 0) {
      out_.summary += fmt::format("; the other {}", untuned_);
      if (other_default_ > 0)
        out_.summary += fmt::format(" ({} measured only against another default)", other_default_);
      out_.summary += ": analytic defaults";
      if (!options_.tune.empty() && !options_.shipped) out_.summary += fmt::format(", `{}` tunes them", options_.tune);
    }
    if (imported_ > 0) out_.summary += "; " + imported_text(imported_);
    const auto most = std::ranges::max_element(by_threads_, {}, [](const auto& of) { return of.second; });
    if (most != by_threads_.end()) out_.tuned_at = most->first;
    return std::move(out_);
  }

 private:
  Answered find(const Task& task, const Query& query) const {
    Answered out;
    const auto takes = [&](const Match& m) {
      if (out.lost >= kEnoughTried) return false;  // the default won, whatever more distant records say
      std::optional<Schedule> schedule = try_parse_schedule(m.record.schedule);
      if (!schedule || !may_run(task, *schedule, compile_)) return false;
      // Uses only records with a ratio over the default that shows a gain.
      if (!m.ratio) {
        out.other_default = out.other_default || m.distance < Distance::threads;
        return false;
      }
      if (m.ratio->high >= 1) {
        ++out.lost;
        out.tuned = out.tuned || m.distance < Distance::threads;
        return false;
      }
      if (!lowers(task, *schedule, compile_)) return false;
      out.schedule = std::move(schedule);
      return true;
    };
    if (const auto match = matcher_.best(query, takes)) out.match = *match;
    return out;
  }

  const CompileOptions& compile_;
  const Matcher& matcher_;
  const ApplyOptions& options_;
  std::map<std::string, Answered> answers_;  ///< by problem, layouts and default schedule
  std::map<Distance, std::pair<int64_t, double>> by_distance_;
  std::map<int, int64_t> by_threads_;  ///< tasks by the number of threads of their record
  int64_t tasks_ = 0, default_won_ = 0, untuned_ = 0;
  int64_t other_default_ = 0;  ///< among the untuned
  int64_t imported_ = 0;
  std::set<std::string> anchors_;  ///< already counted in imported_
  Recorded out_;
};

}  // namespace

std::string ratio_text(const Ratio& r) {
  return fmt::format("{:.3f} ({:.3f} to {:.3f}) of the default's time", r.value, r.low, r.high);
}

Query query_of(const std::string& problem, const std::string& layouts, const std::string& fallback,
               const CompileOptions& compile, const ApplyOptions& options) {
  return {problem, layouts, compile.target.name, options.device, options.threads, code_versions(compile.target),
          fallback};
}

std::optional<std::string> words_of(const Matcher& matcher, const Query& query, const std::string& schedule,
                                    const ApplyOptions& options) {
  const auto match = matcher.best(
      query, [&](const Match& m) { return m.record.schedule == schedule && m.record.problem == query.problem; });
  return match ? std::optional(words_of(*match, options)) : std::nullopt;
}

bool lowers(const Task& task, const Schedule& schedule, const CompileOptions& compile) {
  return may_run(task, schedule, compile) && find_template(schedule.name)->lower(task, schedule, compile.target.limits);
}

Recorded apply_records(const Compiled& plan, const CompileOptions& compile, const Matcher& matcher,
                       const ApplyOptions& options) {
  std::set<std::string> run;
  for (const Step& step : plan.plan.steps) {
    if (step.kind == StepKind::kernel) run.insert(step.name);
  }
  Applier applier(compile, matcher, options);
  for (const TaskEntry& entry : plan.tasks->tasks) {
    if (entry.kind != TaskEntry::kernel) continue;
    const Task task = plan.tasks->task(entry);
    const std::string& node = task.node().name;
    if (run.contains(node) && forced_schedule(compile.choices, node) == nullptr)
      applier.task(task, entry.schedule.text());
  }
  return applier.finish();
}

Choices history_best_choices(const Graph& graph, const CompileOptions& compile, std::span<const Record> records,
                             const ApplyOptions& options) {
  if (records.empty()) return {};
  const Matcher matcher(std::vector<Record>(records.begin(), records.end()));
  CompileOptions look = compile;
  look.contents = {.code = false, .tasks = true};
  Choices choices = apply_records(compile_passed(run_passes(graph, look), look), compile, matcher, options).choices;
  for (auto& [node, choice] : choices) choice.schedule_from = {};
  return choices;
}

Choices allowed(Choices choices, const std::vector<Forbidden>& forbidden) {
  for (auto& [node, choice] : choices) {
    if (choice.fuse == Fusion::before &&
        forbids(forbidden, node, {std::string(conv2d_then_depthwise.name), {}}) != nullptr)
      choice.fuse = Fusion::usual;
  }
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

Choices from_record(Choices choices, const std::string& from) {
  const Origin origin{ScheduleSource::record, from};
  for (auto& [node, choice] : choices) choice.set_origin(origin);
  return choices;
}

Recorded recorded_plan(const KeptPlan& kept, const Choices& choices, const ApplyOptions& options) {
  std::string accepted = done_on("accepted", kept.date, options);
  if (kept.choices.empty()) {
    return {{},
            fmt::format("{}: the plan {}: nothing was {} than the default plan, which stays", options.file, accepted,
                        kept.objective.weighs_memory() ? "better by " + text(kept.objective) : "faster")};
  }
  accepted += fmt::format(": the network took {} in its race", ratio_text(kept.default_ratio));
  if (kept.objective.weighs_memory())
    accepted += fmt::format(" and {:.3f} of the default's memory, tuned for {}", kept.bytes, text(kept.objective));
  Recorded out;
  out.choices = from_record(choices, accepted);
  if (!choices.empty()) out.tuned_at = kept.key.threads;
  out.summary = fmt::format("{}: the plan {}; {} from the default", options.file, accepted,
                            choices.size() == 1 ? "1 layer differs" : fmt::format("{} layers differ", choices.size()));
  if (choices.size() < kept.choices.size())
    out.summary += fmt::format(", {} more forbidden", kept.choices.size() - choices.size());
  return out;
}

}  // namespace kilter::tune
