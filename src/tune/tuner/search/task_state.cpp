#include "tune/tuner/search/task_state.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tune/tuner/left.h"
#include "tune/tuner/objective.h"
#include "tune/tuner/search/learned.h"

namespace kilter::tune {
namespace {

/// A trial in the form in which the searcher learns of it. A toll counts as a factor, because costs are positive, and
/// is limited, because a searcher compares schedules of nearly the same cost.
Trial trial_of(const Point& point, const Candidate& c) {
  constexpr double kMostToll = 2;
  if (c.status != Status::ok) return {point, INFINITY};
  const double factor = std::exp(std::clamp(c.toll, -kMostToll, kMostToll));
  return {point, c.ratios.cost() * factor, static_cast<double>(c.ratios.size())};
}

}  // namespace

TaskState::TaskState(NetworkTask task, const TaskOptions& options, std::span<const Record> known, uint32_t group)
    : task_(std::move(task)),
      options_(options),
      space_(std::make_unique<Space>(task_.task, options_.limits, options_.accuracy, options_.forbidden)),
      pruned_(prune(*space_, {options_.search.prune})),
      group_(group) {
  seed(known);
  trained_ = model_for(options_.search.searcher);
  SearchSpace search{space_.get(),        pruned_.points, options_.threads, {},
                     options_.pretrained, trained_.get(), options_.lessons, group_};
  if (trained_ != nullptr && options_.lessons != nullptr) features_.emplace(*space_, options_.threads);
  for (const auto& [text, c] : candidates_) {
    if (const auto point = space_->find(c.schedule)) search.known.push_back(trial_of(*point, c));
  }
  if (const auto point = space_->find(task_.fallback)) search.known.push_back({*point, 1.0, INFINITY});
  for (const Trial& t : search.known) teach(t);
  searcher_ = make_searcher(options_.search, std::move(search));
  news_.clear();
}

void TaskState::seed(std::span<const Record> known) {
  for (const Record& r : known) {
    const std::optional<Schedule> schedule = try_parse_schedule(r.schedule);
    if (!schedule || *schedule == task_.fallback || !space_->find(*schedule)) continue;
    Candidate& c = entry(*schedule);
    if (r.status != Status::ok) {
      c.status = r.status, c.error = r.error;
    } else if (r.versus && r.versus->schedule == task_.fallback.text()) {
      if (c.ratios.empty()) c.order = ++ordered_;
      c.ratios.add_earlier(r.versus->ratio, static_cast<int64_t>(r.samples_ms.size()));
    }
  }
  std::erase_if(candidates_, [](const auto& e) { return e.second.status == Status::ok && e.second.ratios.empty(); });
  tried_before_ = tried();
}

Candidate& TaskState::entry(const Schedule& schedule) {
  Candidate& c = candidates_[schedule.text()];
  if (!c.schedule.name.empty()) return c;
  c.schedule = schedule;
  if (bytes_) c.bytes = bytes_(schedule), c.toll = static_cast<double>(c.bytes) * toll_;
  return c;
}

bool TaskState::advise(const Schedule& schedule) {
  if (schedule == task_.fallback || candidates_.contains(schedule.text()) || !space_->find(schedule)) return false;
  if (std::ranges::find(advised_, schedule) != advised_.end()) return false;
  advised_.push_back(schedule);
  return true;
}

void TaskState::weigh(std::function<int64_t(const Schedule&)> bytes, double toll) {
  bytes_ = std::move(bytes), toll_ = toll;
  std::vector<Trial> trials;
  for (auto& [text, c] : candidates_) {
    c.bytes = bytes_(c.schedule), c.toll = static_cast<double>(c.bytes) * toll_;
    const bool known = c.status != Status::ok || !c.ratios.empty();
    if (const auto point = space_->find(c.schedule); point && known) trials.push_back(trial_of(*point, c));
  }
  if (!trials.empty()) searcher_->learn(trials);
  for (size_t part = 0; part < space_->parts().size(); ++part) {
    const auto best = space_->best_of(part);
    if (best && bytes_(space_->schedule(*best)) < 0) advise(space_->schedule(*best));
  }
}

std::vector<Schedule> TaskState::explore(size_t most) {
  std::vector<Schedule> out;
  if (explored_ || most == 0) return out;
  const auto add = [&](const Schedule& schedule) {
    entry(schedule).pending = true;
    out.push_back(schedule);
  };
  while (!advised_.empty() && out.size() < most) {
    add(advised_.front());
    advised_.erase(advised_.begin());
  }
  if (out.size() == most) return out;
  std::vector<Point> points;
  do {
    points = searcher_->propose(most - out.size());
    for (const Point& p : points) {
      // The searcher learns of an advised schedule only when it is measured, so it may propose it again.
      if (const Schedule schedule = space_->schedule(p); !candidates_.contains(schedule.text())) add(schedule);
    }
  } while (out.empty() && !points.empty());
  explored_ = out.empty();
  return out;
}

int64_t TaskState::tried() const {
  return std::ranges::count_if(candidates_,
                               [](const auto& e) { return e.second.status != Status::ok || !e.second.ratios.empty(); });
}

std::vector<Schedule> TaskState::contenders(size_t most, double noise) {
  const Candidate* best = leader();
  const double limit = best == nullptr ? 1 : std::min(1.0, score(*best, noise).high);
  std::vector<const Candidate*> open;
  for (const auto& [text, c] : candidates_) {
    if (c.status != Status::ok || c.pending || c.ratios.empty() || c.ratios.size() >= options_.most_samples) continue;
    if (score(c, noise).low <= limit) open.push_back(&c);
  }
  // The default needs no samples of its own, so if there is only one leader, it must only be distinguished from the
  // default.
  if (open.size() == 1 && score(*open.front(), noise).high < 1 && open.front() == best) return {};
  // Candidates that may be the fastest come first: the lower ends of their intervals are low, because they have few
  // samples or are fast.
  std::ranges::stable_sort(open, {}, [&](const Candidate* c) { return score(*c, noise).low; });
  std::vector<Schedule> out;
  for (size_t i = 0; i < std::min(most, open.size()); ++i) {
    out.push_back(open[i]->schedule);
    entry(out.back()).pending = true;
  }
  return out;
}

bool TaskState::trial(const Schedule& schedule, std::span<const double> ratios) {
  Candidate& c = entry(schedule);
  const bool first = c.ratios.empty();
  if (first) c.order = ++ordered_;
  for (const double ratio : ratios) c.ratios.add(ratio);
  c.ratios.end_trial();
  c.pending = false;
  current_ = c.ratios.cost();
  news_.push_back(schedule.text());
  return first;
}

void TaskState::fail(const Schedule& schedule, Status status, const std::string& error) {
  Candidate& c = entry(schedule);
  c.status = status, c.error = error, c.pending = false;
  news_.push_back(schedule.text());
}

bool TaskState::learn(double noise) {
  std::sort(news_.begin(), news_.end());
  news_.erase(std::unique(news_.begin(), news_.end()), news_.end());
  std::vector<Trial> trials;
  for (const std::string& text : news_) {
    const Candidate& c = candidates_.at(text);
    ++trials_, ++dry_;
    if (const auto point = space_->find(c.schedule)) trials.push_back(trial_of(*point, c));
  }
  news_.clear();
  for (const Trial& t : trials) teach(t);
  searcher_->learn(trials);
  constexpr double kFaster = 0.995;
  const Candidate* best = bytes_ ? winner(noise) : nullptr;
  const double cost = believed_cost(noise) + (best == nullptr ? 0 : best->toll);
  const bool better = cost < (best_ > 0 ? best_ * kFaster : best_ / kFaster);
  if (better) dry_ = 0;
  if (better || cost > best_) best_ = cost;
  return better;
}

void TaskState::teach(const Trial& trial) {
  if (!features_ || taught_ >= kMostLessons || !std::isfinite(trial.cost)) return;
  options_.lessons->add(features_->row(trial.point), std::log2(trial.cost), group_);
  ++taught_;
}

const Candidate* TaskState::leader() const {
  const Candidate* best = nullptr;
  for (const auto& [text, c] : candidates_) {
    if (c.status != Status::ok || c.ratios.empty()) continue;
    if (best == nullptr || c.ratios.cost() + c.toll < best->ratios.cost() + best->toll) best = &c;
  }
  return best;
}

Ratio TaskState::score(const Candidate& c, double noise) const {
  const Ratio time = c.ratios.ratio(noise);
  return {time.value + c.toll, time.low + c.toll, time.high + c.toll};
}

std::vector<const Candidate*> TaskState::winners(size_t most, double noise,
                                                 const std::vector<std::string>& skip) const {
  std::vector<std::pair<double, const Candidate*>> all;
  for (const auto& [text, c] : candidates_) {
    if (c.status != Status::ok || c.ratios.empty() || std::find(skip.begin(), skip.end(), text) != skip.end()) continue;
    if (bytes_ && c.ratios.cost() > kMostTime) continue;
    if (const double high = score(c, noise).high; high < 1) all.emplace_back(high, &c);
  }
  std::ranges::stable_sort(all, {}, [](const auto& one) { return one.first; });
  std::vector<const Candidate*> out;
  for (size_t i = 0; i < std::min(most, all.size()); ++i) out.push_back(all[i].second);
  return out;
}

const Candidate* TaskState::winner(double noise, const std::vector<std::string>& skip) const {
  const std::vector<const Candidate*> best = winners(1, noise, skip);
  return best.empty() ? nullptr : best.front();
}

Beliefs TaskState::beliefs(double noise) const {
  Beliefs all(noise);
  for (const auto& [text, c] : candidates_) {
    if (c.status == Status::ok && !c.ratios.empty()) all.add(c.ratios);
  }
  return all;
}

double TaskState::left(double noise) const {
  if (explored_ || tried() >= size()) return 0;
  std::vector<const Candidate*> in_order;
  for (const auto& [text, c] : candidates_) {
    if (c.status == Status::ok && !c.ratios.empty()) in_order.push_back(&c);
  }
  std::ranges::sort(in_order, {}, &Candidate::order);
  std::vector<const LogRatios*> ratios;
  for (const Candidate* c : in_order) ratios.push_back(&c->ratios);
  const double unseen = 1 - static_cast<double>(tried()) / static_cast<double>(size());
  return unseen * left_to_gain(ratios, noise);
}

double TaskState::believed_cost(double noise) const {
  const Candidate* best = winner(noise);
  if (best == nullptr) return 1;
  const double cost = beliefs(noise).cost(best->ratios);
  return bytes_ ? cost : std::min(1.0, cost);
}

const Candidate* TaskState::find(const Schedule& schedule) const {
  const auto it = candidates_.find(schedule.text());
  return it == candidates_.end() ? nullptr : &it->second;
}

}  // namespace kilter::tune
