#include "tune/tuner/outlook.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

namespace kilter::tune {
namespace {

/// What the records of one task say.
struct Tuned {
  std::vector<const Record*> records;
  std::set<std::string> tried;
  bool small = true;  ///< no schedule of more than one knob among them
  double ratio = 1;   ///< of the best schedule over the default; 1: none is surely faster

  bool enough() const { return static_cast<int64_t>(tried.size()) >= (small ? 1 : kEnoughTried); }
};

using TaskKey = std::pair<std::string, std::string>;  ///< problem, layouts

bool of_this_machine(const Record& r, const Query& q) {
  return !r.imported() && r.mapped() && r.conditions.target == q.target && r.conditions.device == q.device &&
         r.conditions.threads == q.threads;
}

std::map<TaskKey, Tuned> tuned_tasks(std::span<const Record> records, const Query& query) {
  std::map<TaskKey, Tuned> tasks;
  for (const Record& r : records) {
    if (!of_this_machine(r, query)) continue;
    Tuned& t = tasks[{r.problem, r.layouts}];
    t.records.push_back(&r);
    t.tried.insert(r.schedule);
    t.small = t.small && std::ranges::count(r.schedule, '=') <= 1;
  }
  const Barred barred(records);
  for (auto& [key, t] : tasks) {
    for (const Record* r : ranked(t.records, barred)) {
      if (!r->versus) continue;
      if (r->versus->ratio.high < 1) t.ratio = r->versus->ratio.value;
      break;
    }
  }
  return tasks;
}

/// Mean of the logarithms of the best ratios of tuned tasks of one kind.
struct Kind {
  double log_sum = 0;
  int64_t tasks = 0;
  double ratio() const { return std::exp(log_sum / static_cast<double>(tasks)); }
};

void add(OutlookPart& part, const OutlookLayer& layer, double ratio) {
  ++part.layers;
  part.ms += layer.ms;
  part.gain_ms += layer.ms * (1 - ratio);
}

}  // namespace

double expected_left(int64_t tried) {
  constexpr std::array kRegret = {0.0252, 0.0155, 0.0093, 0.0055, 0.0031, 0.0011};  // after kEnoughTried, twice that...
  const double twice = std::log2(std::max<double>(static_cast<double>(tried) / kEnoughTried, 1));
  const auto at = static_cast<size_t>(twice);
  if (at + 1 >= kRegret.size()) return kRegret.back() * std::exp2(kRegret.size() - 1 - twice);
  return std::lerp(kRegret[at], kRegret[at + 1], twice - static_cast<double>(at));
}

Outlook outlook(std::span<const OutlookLayer> layers, double total_ms, std::span<const Record> records,
                const Query& query) {
  Outlook out;
  out.total_ms = total_ms;
  const std::map<TaskKey, Tuned> tasks = tuned_tasks(records, query);
  std::map<std::string, Kind> kinds;
  for (const auto& [key, t] : tasks) {
    out.records += static_cast<int64_t>(t.records.size());
    if (!t.enough()) continue;
    ++out.tuned_tasks;
    Kind& kind = kinds[shape_of(key.first).form];
    kind.log_sum += std::log(t.ratio), ++kind.tasks;
  }
  std::set<std::string> rests_on;
  for (const OutlookLayer& layer : layers) {
    const auto task = tasks.find({layer.problem, layer.layouts});
    const std::string form = shape_of(layer.problem).form;
    const auto kind = kinds.find(form);
    if (task != tasks.end() && task->second.enough() && !task->second.small)
      add(out.further, layer, 1 - expected_left(static_cast<int64_t>(task->second.tried.size())));
    if (layer.from != ScheduleSource::fallback) {
      add(out.chosen, layer, 1);
    } else if (task != tasks.end() && task->second.ratio < 1) {
      add(out.available, layer, task->second.ratio);
    } else if (task != tasks.end() && task->second.enough()) {
      add(out.settled, layer, 1);
    } else if (kind != kinds.end()) {
      add(out.expected, layer, kind->second.ratio());
      if (rests_on.insert(form).second) out.like += kind->second.tasks;
    } else {
      add(out.unknown, layer, 1);
    }
  }
  return out;
}

std::vector<std::string> text(const Outlook& o, const std::string& file) {
  std::vector<std::string> lines;
  if (o.records == 0) {
    lines.push_back(
        fmt::format("{} holds no record of this machine at this number of threads, so what tuning would "
                    "bring is not known; this tells:",
                    file));
    return lines;
  }
  lines.push_back(fmt::format("From {} records of {} tuned tasks of this machine at this number of threads, in {}:",
                              o.records, o.tuned_tasks, file));
  const auto line = [&](const OutlookPart& part, const char* what, const std::string& gain) {
    if (part.layers == 0) return;
    lines.push_back(fmt::format("{:>4} layer{} {:>5.1f} % of the time  {}{}", part.layers, part.layers == 1 ? " " : "s",
                                100 * part.ms / o.total_ms, what, gain));
  };
  const auto saves = [&](const OutlookPart& part) {
    return fmt::format("{:.1f} % of the run", 100 * part.gain_ms / o.total_ms);
  };
  line(o.chosen, "run under a schedule from records, a layer plan or the command line", "");
  line(o.available, "have a faster schedule in the records: --records would save about ", saves(o.available));
  line(o.settled, "were tuned, and the default won", "");
  line(o.expected, "were not tuned: tuning is expected to save about ",
       fmt::format("{}, as {} tuned task{} of the same kinds had it", saves(o.expected), o.like,
                   o.like == 1 ? "" : "s"));
  line(o.unknown, "were not tuned, and none of their kinds was: not known", "");
  line(o.further, "have schedules left to try: another five minutes are expected to save about ",
       saves(o.further) + ", as the searcher's mean regret says");
  lines.emplace_back(
      "These are estimates: ratios of single layers, of which whole networks keep a part. Tuning measures it:");
  return lines;
}

}  // namespace kilter::tune
