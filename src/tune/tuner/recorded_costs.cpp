#include "tune/tuner/recorded_costs.h"

#include <algorithm>

#include "measure/stats.h"

namespace kilter::tune {
namespace {

constexpr double kNoise = 0.03;           ///< of one ratio, where a candidate's own spread is not known
constexpr double kOtherTemplate = 1.333;  ///< times the default: what a template's best may take to be looked at again

std::string key(const std::string& problem, const std::string& layouts) { return problem + "|" + layouts; }

double cost(const RecordedCosts::Known& known) { return known.all.cost(); }

}  // namespace

RecordedCosts::RecordedCosts(std::span<const Record> records, const Query& query) {
  for (const Record& r : records) {
    const Conditions& c = r.conditions;
    if (!r.mapped() || c.target != query.target || c.device != query.device || c.codegen != query.codegen ||
        c.threads != query.threads)
      continue;
    std::optional<Schedule> schedule = try_parse_schedule(r.schedule);
    if (!schedule) continue;
    Task& task = tasks_[key(r.problem, r.layouts)];
    Known& known = task.schedules[r.schedule];
    if (known.schedule.name.empty()) known.schedule = std::move(*schedule);
    if (r.status != Status::ok) known.failed = true;
    if (r.status != Status::ok || !r.versus || r.samples_ms.empty()) continue;
    const auto samples = static_cast<int64_t>(r.samples_ms.size());
    known.all.add_earlier(r.versus->ratio, samples);
    known.nodes[r.node].add_earlier(r.versus->ratio, samples);
    task.default_ms[r.versus->schedule].push_back(mean_of_middle_half(r.samples_ms) / r.versus->ratio.value);
  }
}

LogRatios RecordedCosts::Known::at(const std::string& node) const {
  LogRatios out;
  if (const auto here = nodes.find(node); here != nodes.end()) out = here->second;
  out.add_earlier(all.ratio(kNoise), all.size());
  return out;
}

const RecordedCosts::Task* RecordedCosts::task(const Layer& layer) const {
  const auto it = tasks_.find(key(layer.problem, layer.layouts));
  return it == tasks_.end() || !layer.task() ? nullptr : &it->second;
}

const RecordedCosts::Known* RecordedCosts::find(const Layer& layer, const Schedule& schedule) const {
  const Task* known = task(layer);
  if (known == nullptr) return nullptr;
  const auto it = known->schedules.find(schedule.text());
  return it == known->schedules.end() || it->second.failed || it->second.all.empty() ? nullptr : &it->second;
}

std::vector<const RecordedCosts::Known*> RecordedCosts::best(const Layer& layer, size_t most) const {
  std::vector<const Known*> all, out;
  const Task* known = task(layer);
  if (known == nullptr) return out;
  for (const auto& [text, one] : known->schedules) {
    if (!one.failed && !one.all.empty() && text != layer.schedule) all.push_back(&one);
  }
  std::stable_sort(all.begin(), all.end(), [](const Known* a, const Known* b) { return cost(*a) < cost(*b); });
  for (const Known* one : all) {
    const bool first =
        std::none_of(out.begin(), out.end(), [&](const Known* o) { return o->schedule.name == one->schedule.name; });
    const bool other = first && !layer.schedule.starts_with(one->schedule.name + " ");
    if ((out.size() < most && cost(*one) < 1 + kNoise) || (other && cost(*one) < kOtherTemplate)) out.push_back(one);
  }
  return out;
}

double RecordedCosts::default_ms(const Layer& layer) const {
  const Task* known = task(layer);
  if (known == nullptr) return 0;
  const auto it = known->default_ms.find(layer.schedule);
  return it == known->default_ms.end() ? 0 : mean_of_middle_half(it->second);
}

}  // namespace kilter::tune
