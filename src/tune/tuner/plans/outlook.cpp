#include "tune/tuner/plans/outlook.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "tune/records/over_default.h"
#include "tune/tuner/left.h"

namespace kilter::tune {
namespace {

/// Whether the schedule has at most one knob, in which case the task has hardly any other schedules.
bool hardly_any_knobs(std::string_view schedule) { return std::ranges::count(schedule, '=') <= 1; }

/// The recorded results of one task.
struct Tuned {
  std::vector<const Record*> records;
  std::set<std::string> tried;
  bool small = true;  ///< no schedule has more than one knob
  double ratio = 1;   ///< of the best schedule over today's default; 1: none is certainly faster
  double left = 0;    ///< left_to_gain()

  int64_t count() const { return static_cast<int64_t>(tried.size()); }
  bool enough() const { return count() >= (small ? 1 : kEnoughTried); }
};

/// left_to_gain() of the measurements of one task, in the order of their dates.
double left_by_records(std::vector<const Record*> records, const OverDefault& over) {
  std::ranges::stable_sort(records, {}, [](const Record* r) { return std::string_view(r->conditions.date); });
  std::vector<std::string_view> order;
  std::map<std::string_view, LogRatios> ratios;
  for (const Record* r : records) {
    const std::optional<Ratio> ratio = r->status == Status::ok ? over.of(*r) : std::nullopt;
    if (!ratio) continue;
    const auto [of, first] = ratios.try_emplace(r->schedule);
    if (first) order.push_back(r->schedule);
    of->second.add_earlier(*ratio, std::ssize(r->samples_ms));
  }
  std::vector<const LogRatios*> tried;
  for (const std::string_view schedule : order) tried.push_back(&ratios.at(schedule));
  return left_to_gain(tried, kUsualNoise);
}

using TaskKey = std::pair<std::string, std::string>;  ///< problem, layouts

bool of_this_machine(const Record& r, const Query& q) {
  return !r.imported() && r.mapped() && r.conditions.target == q.target && r.conditions.device == q.device &&
         r.conditions.threads == q.threads;
}

/// The default schedules of the tasks that have a layer running its default.
std::map<TaskKey, std::string> defaults_of(std::span<const OutlookLayer> layers) {
  std::map<TaskKey, std::string> out;
  for (const OutlookLayer& layer : layers) {
    if (layer.from == ScheduleSource::fallback) out[{layer.problem, layer.layouts}] = layer.schedule;
  }
  return out;
}

std::map<TaskKey, Tuned> tuned_tasks(std::span<const OutlookLayer> layers, std::span<const Record> records,
                                     const Query& query) {
  std::map<TaskKey, Tuned> tasks;
  for (const Record& r : records) {
    if (!of_this_machine(r, query)) continue;
    Tuned& t = tasks[{r.problem, r.layouts}];
    t.records.push_back(&r);
    t.tried.insert(r.schedule);
    t.small = t.small && hardly_any_knobs(r.schedule);
  }
  const Barred barred(records);
  const std::map<TaskKey, std::string> defaults = defaults_of(layers);
  for (auto& [key, t] : tasks) {
    const auto now = defaults.find(key);
    const OverDefault over = now == defaults.end() ? OverDefault() : OverDefault(t.records, now->second);
    for (const Record* r : ranked(t.records, barred, over)) {
      const std::optional<Ratio> ratio = over.of(*r);
      if (!ratio) continue;
      if (ratio->high < 1) t.ratio = ratio->value;
      break;
    }
    if (!t.small) t.left = left_by_records(t.records, over);
  }
  return tasks;
}

/// Tuned tasks of one kind: the mean logarithm of their best ratios, and the mean gain that is expected to be left.
struct Kind {
  double log_sum = 0, left_sum = 0;
  int64_t tasks = 0;
  double ratio() const { return std::exp(log_sum / static_cast<double>(tasks)); }
  double left() const { return left_sum / static_cast<double>(tasks); }
};

/// A task with schedules left to try.
struct Open {
  double left = 0;   ///< share of the task's time
  double tried = 0;  ///< number of schedules
  bool prior = false;
  OutlookPart layers = {};

  /// Share of the task's time that `more` schedules are expected to gain.
  double gain(double more) const {
    if (!prior) return gain_of_more(left, tried, more);
    return mean_regret(tried / kTriedPerTrial) - mean_regret((tried + more) / kTriedPerTrial);
  }
};

class Looker {
 public:
  Looker(std::span<const OutlookLayer> layers, std::span<const Record> records, const OutlookFor& what, Outlook& out)
      : layers_(layers), what_(what), tasks_(tuned_tasks(layers, records, what.here)), out_(out) {
    std::vector<const Record*> mine;
    for (const auto& [key, t] : tasks_) {
      mine.insert(mine.end(), t.records.begin(), t.records.end());
      if (!t.enough()) continue;
      ++out_.tuned_tasks;
      Kind& kind = kinds_[shape_of(key.first).form];
      kind.log_sum += std::log(t.ratio), kind.left_sum += t.left, ++kind.tasks;
    }
    out_.records = static_cast<int64_t>(mine.size());
    out_.rate = trial_rate(mine, what.network);
  }

  /// Assigns every layer to one part of the outlook.
  void sort() {
    std::set<std::string> rests_on;
    const KeptPlan* plan = what_.accepted;
    const bool unused = plan != nullptr && !what_.accepted_in_use && !plan->choices.empty();
    for (const OutlookLayer& layer : layers_) {
      const Tuned* task = tuned(layer);
      const std::string form = shape_of(layer.problem).form;
      const auto kind = kinds_.find(form);
      if (layer.from != ScheduleSource::fallback) {
        add(out_.chosen, layer, 1);
      } else if (unused && plan->choices.contains(layer.node)) {
        add(out_.available, layer, 1);
      } else if (task != nullptr && task->ratio < 1) {
        plan == nullptr ? add(out_.available, layer, task->ratio) : add(out_.lost, layer, 1);
      } else if (task != nullptr && task->enough()) {
        add(out_.settled, layer, 1);
      } else if (kind != kinds_.end()) {
        add(out_.expected, layer, kind->second.ratio());
        if (rests_on.insert(form).second) out_.like += kind->second.tasks;
      } else {
        add(out_.unknown, layer, 1);
      }
    }
    if (!unused) return;
    out_.accepted = plan->date.substr(0, 10);
    out_.available.gain_ms = out_.total_ms * std::max(0.0, 1 - plan->default_ratio.value);
  }

  /// Estimates the gain of the additional minutes if each task gets a share of them proportional to its layers' time.
  void look_further() {
    std::map<TaskKey, Open> open;
    double all_ms = 0;
    for (const OutlookLayer& layer : layers_) {
      const auto left = left_of(layer);
      if (!left) continue;
      add(open.try_emplace({layer.problem, layer.layouts}, *left).first->second.layers, layer, 1);
      all_ms += layer.ms;
    }
    for (auto& [key, task] : open) {
      const double share = all_ms > 0 ? task.layers.ms / all_ms : 0;
      const double more = out_.rate.per_second * 60 * out_.minutes * share * kTriedPerTrial;
      task.layers.gain_ms = task.layers.ms * task.gain(more);
      add(out_.further, task.layers);
      if (task.prior) add(out_.prior, task.layers);
    }
  }

 private:
  static void add(OutlookPart& part, const OutlookLayer& layer, double ratio) {
    add(part, {1, layer.ms, layer.ms * (1 - ratio)});
  }
  static void add(OutlookPart& part, const OutlookPart& more) {
    part.layers += more.layers, part.ms += more.ms, part.gain_ms += more.gain_ms;
  }

  const Tuned* tuned(const OutlookLayer& layer) const {
    const auto task = tasks_.find({layer.problem, layer.layouts});
    return task == tasks_.end() ? nullptr : &task->second;
  }

  /// Empty if hardly any schedules are left, or if a record of another machine or task chose the layer's schedule.
  std::optional<Open> left_of(const OutlookLayer& layer) const {
    const Tuned* task = tuned(layer);
    const double tried = task == nullptr ? 0 : static_cast<double>(task->count());
    if (task != nullptr && task->enough()) return task->small ? std::nullopt : std::optional(Open{task->left, tried});
    if (layer.from != ScheduleSource::fallback || hardly_any_knobs(layer.schedule)) return std::nullopt;
    if (const auto kind = kinds_.find(shape_of(layer.problem).form); kind != kinds_.end())
      return Open{1 - kind->second.ratio() + kind->second.left(), std::max(tried, 1.0)};
    return Open{0, tried, true};
  }

  std::span<const OutlookLayer> layers_;
  const OutlookFor& what_;
  std::map<TaskKey, Tuned> tasks_;
  std::map<std::string, Kind> kinds_;
  Outlook& out_;
};

std::string share_text(double ms, const Outlook& o) {
  return fmt::format("{:.1f} % of the run", 100 * ms / o.total_ms);
}

std::string minutes_text(const Outlook& o) {
  return fmt::format("{:g} minute{}", o.minutes, o.minutes == 1 ? "" : "s");
}

/// The basis of the estimated gain of more minutes.
std::string basis_text(const Outlook& o) {
  constexpr std::string_view kRates[] = {"assumed", "the rate of earlier tuning on this machine",
                                         "the rate of tuning this network"};
  std::string out = fmt::format(
      "({:.0f} trials at {:.3g} a second, {}; each doubling of the number of trials is expected to gain half as much "
      "as the one before",
      o.rate.per_second * 60 * o.minutes, o.rate.per_second, kRates[o.rate.from]);
  if (o.prior.layers > 0) {
    out += fmt::format("; no record covers {} layer{}, for which the searcher's mean regret is used as a prior",
                       o.prior.layers, o.prior.layers == 1 ? "" : "s");
  }
  return out + ")";
}

std::string header(const Outlook& o, const std::string& file) {
  if (o.records > 0) {
    return fmt::format("From {} records of {} tuned tasks from this machine at this number of threads, in {}:",
                       o.records, o.tuned_tasks, file);
  }
  const std::string none = fmt::format("{} contains no record from this machine at this number of threads", file);
  return none + (o.further.layers == 0 ? ", so the gain of tuning is not known; this command shows it:" : ":");
}

}  // namespace

Outlook outlook(std::span<const OutlookLayer> layers, double total_ms, std::span<const Record> records,
                const OutlookFor& what) {
  Outlook out;
  out.total_ms = total_ms, out.minutes = what.minutes;
  Looker looker(layers, records, what, out);
  looker.sort();
  looker.look_further();
  return out;
}

std::vector<std::string> text(const Outlook& o, const std::string& file) {
  std::vector<std::string> lines{header(o, file)};
  if (o.records == 0 && o.further.layers == 0 && o.accepted.empty()) return lines;
  const auto line = [&](const OutlookPart& part, const std::string& what) {
    if (part.layers == 0) return;
    lines.push_back(fmt::format("{:>4} layer{} {:>5.1f} % of the time  {}", part.layers, part.layers == 1 ? " " : "s",
                                100 * part.ms / o.total_ms, what));
  };
  const std::string saves = "--records would save about " + share_text(o.available.gain_ms, o);
  line(o.chosen, "run under a schedule from records, a layer plan or the command line");
  if (o.accepted.empty())
    line(o.available, "have a faster schedule in the records: " + saves);
  else
    line(o.available, fmt::format("would run differently under the plan accepted on {}: {}, as measured in its race",
                                  o.accepted, saves));
  line(o.lost, "were faster on their own under other schedules, but lost in the race of whole networks");
  line(o.settled, "were tuned, and the default won");
  line(o.expected,
       fmt::format("were not tuned: tuning is expected to save about {}, judging by {} tuned task{} of the same kinds",
                   share_text(o.expected.gain_ms, o), o.like, o.like == 1 ? "" : "s"));
  line(o.unknown, "were not tuned, nor was any layer of the same kinds");
  line(o.further, fmt::format("have schedules left to try: another {} of tuning are expected to save about {}",
                              minutes_text(o), share_text(o.further.gain_ms, o)));
  if (o.further.layers > 0) lines.push_back("     " + basis_text(o));
  lines.emplace_back(
      "These are estimates from ratios of single layers; a whole network gains only part of them. Tuning measures the "
      "gain:");
  return lines;
}

std::string summary(const Outlook& o) {
  const int64_t tuned = o.chosen.layers + o.available.layers + o.lost.layers + o.settled.layers;
  const int64_t all = tuned + o.expected.layers + o.unknown.layers;
  std::string out = o.records == 0 ? "no record from this machine at this number of threads"
                                   : fmt::format("{} of {} layers were tuned", tuned, all);
  if (o.available.layers > 0) out += "; --records would save about " + share_text(o.available.gain_ms, o);
  if (o.further.layers > 0) {
    out += fmt::format("; another {} of tuning are expected to save about {}{}", minutes_text(o),
                       share_text(o.further.gain_ms, o), o.prior.layers == o.further.layers ? " (a prior)" : "");
  }
  return out;
}

}  // namespace kilter::tune
