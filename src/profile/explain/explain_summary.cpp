#include "profile/explain/explain_summary.h"

#include <fmt/format.h>

#include <map>

#include "exec/schedule_source.h"

namespace kilter::profile {

std::pair<std::string, std::string> verdict(const Row& row, const Context& c) {
  if (row.bound.kind == Bound::none) return {"no bound known", "the model knows no limit for it"};
  if (c.quiet() == Quietness::busy) return {"not judged", "the machine was busy: its time is an upper bound"};
  if (row.beats_bound())
    return {"bound beaten", fmt::format("faster than its {} bound, which is therefore wrong", row.bound.level)};
  const std::string share = fmt::format("{} of its {} bound", bound_share_text(row), row.bound.level);
  if (!c.matters(row.time.mean)) return {"small", share + ", and less than half a percent of the run"};
  if (row.share() >= 0.75) return {"near its bound", share + ": little can be gained"};
  if (row.from() == ScheduleSource::record)
    return {"tuned", share + ": no single cause stands out, and its schedule is the best that tuning found"};
  return {"untuned", share + ": no single cause stands out, and its schedule was not tuned"};
}

namespace {

/// Returns how much of the time is spent under tuned schedules.
std::string tuned_text(const Context& c) {
  std::map<ScheduleSource, std::pair<int64_t, double>> sources;
  for (const Row* row : c.rows()) {
    if (row->schedule.empty()) continue;
    auto& [count, percent] = sources[row->from()];
    ++count, percent += row->percent;
  }
  const auto part = [&](ScheduleSource source, const char* words) {
    const auto& [count, percent] = sources[source];
    return count == 0 ? std::string() : fmt::format(", {} {} ({:.1f} %)", count, words, percent);
  };
  std::string out = part(ScheduleSource::record, "from tuning records") +
                    part(ScheduleSource::layer_plan, "from the layer plan") +
                    part(ScheduleSource::given, "given with --schedule") +
                    part(ScheduleSource::fallback, "the default of the analytic model");
  return out.empty() ? "No layer has a schedule."
                     : fmt::format("Schedules of layers (share of the time): {}.", out.substr(2));
}

std::string time_text(const Context& c) {
  const Profile& p = c.profile;
  const bool parts = !c.subject.parts.empty();
  return fmt::format("{} {} {} end to end on {} thread{} (80 % of the runs: {} to {}).", c.subject.model,
                     parts ? "is a program, whose compiled parts, each run once, take" : "takes",
                     figure_text(p.end_to_end_ms, p.conditions, 3), p.threads, p.threads == 1 ? "" : "s",
                     ms_text(p.end_to_end.low), ms_text(p.end_to_end.high));
}

std::string bound_text(const Context& c) {
  double bound = 0, by_kind[4] = {};
  for (const Row* row : c.rows()) {
    bound += row->bound.ms;
    by_kind[row->bound.kind] += row->bound.ms;
  }
  const bool busy = c.quiet() == Quietness::busy;  // a share of the time would then be meaningless
  const std::string share =
      busy || bound > c.profile.sum_ms ? "" : percent_text(bound / c.profile.sum_ms) + " of the time: ";
  return fmt::format(
      "Its layers could take {} at the peaks measured in this run, {}{} bound by arithmetic, {} by memory, {} by forks "
      "and joins.",
      ms_text(bound), share, ms_text(by_kind[Bound::compute]), ms_text(by_kind[Bound::memory]),
      ms_text(by_kind[Bound::overhead]));
}

}  // namespace

std::vector<std::string> summary_of(const Explanation& e, const Context& c) {
  std::vector<std::string> lines;
  const std::string quiet = quiet_text(c.profile.conditions, "passes") + ".";
  const bool busy = c.quiet() == Quietness::busy;
  if (busy) lines.push_back(quiet);
  lines.push_back(time_text(c));
  if (!busy) lines.push_back(quiet);
  lines.push_back(bound_text(c));
  lines.push_back(tuned_text(c));
  if (const std::string beaten = beaten_text(c.profile); !beaten.empty()) lines.push_back(beaten + ".");
  if (!c.subject.parts.empty())
    lines.push_back(fmt::format("This explains the {}; `kilter profile` shows the whole run.", c.subject.parts));
  if (!c.subject.graph)
    lines.emplace_back(
        "A compiled file contains no graph, so no alternatives were compiled: explain the model itself.");
  for (const Finding& f : e.findings) {
    if (f.kind != Finding::Kind::action) continue;
    lines.push_back(fmt::format("The largest gain: {} at {}, {:+.1f} %.", f.cause, f.name, -f.gain_percent));
    break;
  }
  return lines;
}

}  // namespace kilter::profile
