#include "tune/tuner/graph_best/recorded_costs.h"

#include <algorithm>
#include <set>

#include "measure/stats.h"
#include "tune/records/over_default.h"
#include "tune/tuner/noise.h"

namespace kilter::tune {
namespace {

std::string key(const std::string& problem, const std::string& layouts) { return problem + "|" + layouts; }

/// One schedule's ratios over a layer's default.
struct Candidate {
  Schedule schedule;
  LogRatios all, here, elsewhere;  ///< of all layers; of this one; of the others

  LogRatios on_layer() const {
    LogRatios out = here;
    if (!elsewhere.empty()) out.add_earlier(elsewhere.ratio(kUsualNoise), elsewhere.size());
    return out;
  }
};

/// The schedules of one task that never failed, without the layer's default.
class Candidates {
 public:
  Candidates(std::span<const Record* const> records, const Layer& layer) : beliefs_(kUsualNoise) {
    const OverDefault over(records, layer.schedule);
    std::set<std::string> failed;
    for (const Record* r : records) {
      if (r->status != Status::ok) failed.insert(r->schedule);
      if (r->status != Status::ok || r->samples_ms.empty()) continue;
      // A ratio converted from a different default is less certain: it counts as one sample.
      const auto samples = over.converts(*r) ? 1 : static_cast<int64_t>(r->samples_ms.size());
      if (const auto ratio = over.of(*r)) add(*r, *ratio, samples, r->node == layer.node);
    }
    for (const std::string& text : failed) all_.erase(text);
    all_.erase(layer.schedule);
    for (const auto& [text, c] : all_) beliefs_.add(c.all);
  }

  const std::map<std::string, Candidate>& all() const { return all_; }
  double cost(const Candidate& c) const { return beliefs_.cost(c.all); }
  RecordedCosts::Known known(const Candidate& c) const {
    const LogRatios here = c.on_layer();
    Ratio ratio = here.ratio(kUsualNoise);
    const double drawn = beliefs_.cost(here) / ratio.value;
    ratio.value *= drawn, ratio.low *= drawn, ratio.high *= drawn;
    return {c.schedule, ratio};
  }

 private:
  void add(const Record& r, const Ratio& ratio, int64_t samples, bool here) {
    std::optional<Schedule> schedule = try_parse_schedule(r.schedule);
    if (!schedule) return;
    Candidate& c = all_[r.schedule];
    c.schedule = std::move(*schedule);
    c.all.add_earlier(ratio, samples);
    (here ? c.here : c.elsewhere).add_earlier(ratio, samples);
  }

  std::map<std::string, Candidate> all_;  ///< by text
  Beliefs beliefs_;
};

}  // namespace

RecordedCosts::RecordedCosts(std::span<const Record> records, const Query& query) {
  for (const Record& r : records) {
    const Conditions& c = r.conditions;
    if (r.mapped() && c.target == query.target && c.device == query.device && c.threads == query.threads &&
        c.codegen == code_version(r, query.versions))
      tasks_[key(r.problem, r.layouts)].push_back(&r);
  }
}

std::span<const Record* const> RecordedCosts::task(const Layer& layer) const {
  const auto it = tasks_.find(key(layer.problem, layer.layouts));
  return it == tasks_.end() || !layer.task() ? std::span<const Record* const>() : it->second;
}

std::optional<RecordedCosts::Known> RecordedCosts::find(const Layer& layer, const Schedule& schedule) const {
  const Candidates candidates(task(layer), layer);
  const auto it = candidates.all().find(schedule.text());
  return it == candidates.all().end() ? std::nullopt : std::optional(candidates.known(it->second));
}

std::vector<RecordedCosts::Known> RecordedCosts::best(const Layer& layer, size_t most, double slowest) const {
  const Candidates candidates(task(layer), layer);
  std::vector<std::pair<double, const Candidate*>> all;
  for (const auto& [text, c] : candidates.all()) all.emplace_back(candidates.cost(c), &c);
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Known> out;
  for (const auto& [cost, c] : all) {
    const std::string& name = c->schedule.name;
    const bool first = std::ranges::none_of(out, [&](const Known& o) { return o.schedule.name == name; });
    const bool other = first && !layer.schedule.starts_with(name + " ");
    if ((out.size() < most && cost < 1 + kUsualNoise) || (other && cost < slowest)) out.push_back(candidates.known(*c));
  }
  return out;
}

double RecordedCosts::default_ms(const Layer& layer) const {
  std::vector<double> ms;
  for (const Record* r : task(layer)) {
    if (r->status == Status::ok && r->versus && !r->samples_ms.empty() && r->versus->schedule == layer.schedule)
      ms.push_back(mean_of_middle_half(r->samples_ms) / r->versus->ratio.value);
  }
  return ms.empty() ? 0 : mean_of_middle_half(ms);
}

}  // namespace kilter::tune
