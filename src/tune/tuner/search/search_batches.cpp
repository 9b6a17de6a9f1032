// Batches of variants: which schedules they carry, how they are built, loaded and measured, and how the results are
// recorded.
#include <algorithm>
#include <iterator>
#include <set>

#include "measure/clock.h"
#include "tune/tuner/race/lap_times.h"
#include "tune/tuner/search/search_run.h"

namespace kilter::tune {
namespace {

constexpr size_t kVariants = 3;     ///< in a batch; they share the runs of the default
constexpr size_t kProbes = 24;      ///< new schedules in one variant: about a quarter of a second of compiling
constexpr size_t kMostProbes = 64;  ///< used if measuring takes longer than building, so that each run carries more
constexpr double kLate = 0.8;       ///< share of the budget after which the search tries no new schedules
/// If building is the bottleneck, a task gets probes only if its promise is at least this share of the highest one.
constexpr double kWorthBuilding = 0.03;

}  // namespace

bool SearchRun::late() const {
  if (options_.trials > 0 && static_cast<double>(done()) >= kLate * static_cast<double>(options_.trials)) return true;
  return now_ms() >= begin_ms_ + kLate * (deadline_ms_ - begin_ms_);
}

/// The share of the network's time, times the unexplored part of the space, times the share of the task's time that
/// exceeds the bound. Lower for tasks whose trials have long brought no gain.
double SearchRun::promise(size_t t) const {
  const TaskState& task = tasks_[t];
  const auto size = static_cast<double>(std::max<int64_t>(task.size(), 1));
  const double left = std::max(0.05, 1 - static_cast<double>(task.tried()) / size);
  constexpr double kLeastRoom = 0.1;  // another template's bound may be lower
  const double ms = node_ms_.at(task.task().nodes.front()) * task.believed_cost(noise_);
  const double room = bound_ms_[t] > 0 ? std::clamp(1 - bound_ms_[t] / ms, kLeastRoom, 1.0) : 1;
  return share_[t] * left * room / (1 + 0.02 * static_cast<double>(task.dry()));
}

std::vector<size_t> SearchRun::by_promise(bool explore) const {
  std::vector<std::pair<double, size_t>> all;
  for (size_t t = 0; t < tasks_.size(); ++t) {
    if (!explore || !tasks_[t].explored()) all.emplace_back(promises_[t], t);
  }
  std::ranges::stable_sort(all, std::greater<>(), [](const auto& one) { return one.first; });
  std::vector<size_t> order;
  for (const auto& [value, t] : all) {
    if (explore && building_is_slower() && value < kWorthBuilding * all.front().first) break;
    order.push_back(t);
  }
  return order;
}

std::vector<Probe> SearchRun::draw(bool explore, size_t most) {
  std::vector<Probe> probes;
  for (const size_t t : by_promise(explore)) {
    if (probes.size() >= most) break;
    TaskState& task = tasks_[t];
    const std::vector<std::string>& nodes = task.task().nodes;
    const size_t room = std::min(nodes.size(), most - probes.size());
    const std::vector<Schedule> schedules = explore ? task.explore(room) : task.contenders(room, noise_);
    for (size_t i = 0; i < schedules.size(); ++i) {
      // Uses a different layer each time, so that no candidate is judged only in the surroundings of one layer.
      const std::string& node = nodes[(i + static_cast<size_t>(planned_)) % nodes.size()];
      probes.push_back({t, node, schedules[i]});
    }
  }
  return probes;
}

SearchRun::Batch SearchRun::plan() {
  Batch batch;
  ++planned_;
  promises_.clear();
  for (size_t t = 0; t < tasks_.size(); ++t) promises_.push_back(promise(t));
  const bool race_only = late();
  const size_t probes = batches_ == 0 || building_is_slower() ? kProbes : kMostProbes;
  for (size_t v = 0; v < kVariants; ++v) {
    const int64_t room = options_.trials > 0 ? options_.trials - done() - under_way_ : int64_t{kMostProbes};
    if (room <= 0) break;
    const size_t most = std::min(probes, static_cast<size_t>(room));
    Trialled one;
    one.probes = again_.take(most);
    if (one.probes.empty()) {
      const bool explore = !race_only && (planned_ + static_cast<int64_t>(v)) % 3 != 0;
      one.probes = draw(explore, most);
      if (one.probes.empty()) one.probes = draw(!explore, most);
    }
    if (one.probes.empty()) continue;
    under_way_ += static_cast<int64_t>(one.probes.size());
    batch.variants.push_back(std::move(one));
  }
  return batch;
}

void SearchRun::build(Batch& batch, const std::function<bool()>& stop) {
  const double start = now_ms();
  for (Trialled& one : batch.variants) {
    if (stop()) break;
    build_one(one);
  }
  batch.ms = now_ms() - start;
}

void SearchRun::build_one(Trialled& one) {
  Choices choices;
  for (const Probe& p : one.probes) choices[p.node] = p.schedule;
  try {
    one.variant = bench_.build(choices);
  } catch (const Error&) {
    build_apart(one);  // a schedule is refused or cannot be compiled
  }
}

/// Leaves out the schedules that do not compile by themselves. If the others do not compile together, builds none.
void SearchRun::build_apart(Trialled& one) {
  Choices choices;
  for (const Probe& p : one.probes) {
    try {
      bench_.try_build({{p.node, p.schedule}});
      choices[p.node] = p.schedule;
    } catch (const Error& e) {
      one.refused.emplace(p.node, e);
    }
  }
  if (choices.empty()) return;
  try {
    one.variant = bench_.build(choices);
  } catch (const Error&) {
    one.apart = true;
  }
}

void SearchRun::measure(Batch& batch) {
  const double start = now_ms();
  ++batches_;
  for (const Trialled& one : batch.variants) under_way_ -= static_cast<int64_t>(one.probes.size());
  std::vector<size_t> loaded;
  const std::vector<VariantId> ids = load(batch, loaded);
  check_ms_ += now_ms() - start;
  compile_ms_ += batch.ms;
  if (ids.size() < 2) return;
  const double before = now_ms();
  MeasureOptions how;
  how.rounds = rounds_;
  how.max_ms = std::max(deadline_ms_ - before, 0.0);
  how.slice_ms = options_.trial.min_repeat_ms;
  how.runs = options_.trial.number;
  how.cut_off = 4;
  how.seed = static_cast<uint64_t>(batches_);
  const Laps laps = bench_.runner().measure(ids, how);
  for (const std::vector<Lap>& of : laps.laps) runs_ += static_cast<int64_t>(of.size());
  note_default_faults(laps);
  if (!laps.laps.front().empty()) building_.note(default_run_ms(laps), default_ms_);
  for (size_t i = 0; i < loaded.size(); ++i) {
    const Trialled& one = batch.variants[loaded[i]];
    std::vector<Fault> mine;
    std::ranges::copy_if(laps.faults, std::back_inserter(mine),
                         [&](const Fault& f) { return f.variant == ids[i + 1]; });
    if (mine.empty())
      note_laps(laps, i + 1, one);
    else
      note_faults(one, mine, false);
  }
  for (size_t i = 1; i < ids.size(); ++i) bench_.runner().drop(ids[i]);
  measure_ms_ += now_ms() - before;
}

void SearchRun::note_default_faults(const Laps& laps) {
  constexpr int kMost = 3;
  std::vector<Fault> faults;
  std::ranges::copy_if(laps.faults, std::back_inserter(faults),
                       [&](const Fault& f) { return f.variant == bench_.fallback_id(); });
  default_faults_ = faults.empty() ? 0 : default_faults_ + 1;
  if (default_faults_ >= kMost) fail_default(faults);
}

std::vector<VariantId> SearchRun::load(Batch& batch, std::vector<size_t>& loaded) {
  std::vector<std::shared_ptr<const Variant>> built;
  std::vector<size_t> which;
  for (size_t v = 0; v < batch.variants.size(); ++v) {
    const Trialled& one = batch.variants[v];
    note_unbuilt(one);
    if (one.variant != nullptr) built.push_back(one.variant), which.push_back(v);
  }
  const std::vector<Loaded> all = bench_.load_all(built);
  std::vector<VariantId> ids{bench_.fallback_id()};
  for (size_t i = 0; i < all.size(); ++i) {
    const Loaded& got = all[i];
    note_faults(batch.variants[which[i]], got.faults, got.id.has_value());
    if (!got.id) continue;
    ids.push_back(*got.id);
    loaded.push_back(which[i]);
  }
  return ids;
}

void SearchRun::note_unbuilt(const Trialled& one) {
  for (const Probe& p : one.probes) {
    const auto why = one.refused.find(p.node);
    if (why != one.refused.end()) {
      // A lack of system resources says nothing about the schedule.
      const ErrorKind kind = why->second.kind();
      note_failure(p, Status::rejected, why->second.message(),
                   kind != ErrorKind::io && kind != ErrorKind::bad_input && kind != ErrorKind::out_of_memory);
    } else if (one.apart) {
      if (!again_.suspect(p, one.probes.size())) tasks_[p.task].put_back(p.schedule);
    } else if (one.variant == nullptr) {
      again_.add(p);  // the search ended before its turn
    }
  }
}

void SearchRun::note_faults(const Trialled& one, const std::vector<Fault>& faults, bool measured) {
  std::set<std::string> guilty;
  const auto blame = [&](const Probe& p, const Fault& fault) {
    const std::optional<Status> lasting = lasting_status(fault.kind);
    note_failure(p, lasting.value_or(Status::rejected), fault.words, lasting.has_value());
  };
  for (const Fault& fault : faults) {
    for (const Probe& p : one.probes) {
      if (p.node == fault.layer && guilty.insert(p.node).second) blame(p, fault);
    }
  }
  if (measured) return;
  for (const Probe& p : one.probes) {
    const Candidate* known = tasks_[p.task].find(p.schedule);
    if (known != nullptr && known->status != Status::ok) continue;
    if (!guilty.empty())
      again_.add(p);
    else if (!again_.suspect(p, one.probes.size()))
      blame(p, faults.front());
  }
}

void SearchRun::note_laps(const Laps& laps, size_t which, const Trialled& one) {
  for (const Probe& p : one.probes) {
    if (!one.variant->choices.contains(p.node)) continue;
    const Candidate* known = tasks_[p.task].find(p.schedule);
    if (known != nullptr && known->status != Status::ok) continue;
    std::vector<double> ratios, samples;
    for (int64_t round = 0; round < laps.rounds; ++round) {
      const LayerTime mine = layer_time(laps.laps[which], round, one.variant->steps.at(p.node));
      const LayerTime base = layer_time(laps.laps[0], round, bench_.fallback().steps.at(p.node));
      if (!mine.alone || !base.alone || !usual_.is_usual(p.node, base.ms)) continue;
      ratios.push_back(mine.ms / base.ms);
      samples.push_back(mine.ms);
    }
    if (samples.empty()) {  // the core was shared in all rounds, or there were none
      if (!again_.disturbed(p)) tasks_[p.task].put_back(p.schedule);
      continue;
    }
    note_trial(p, ratios, samples, bound_of(*one.variant, p.node));
  }
}

void SearchRun::note_trial(const Probe& p, const std::vector<double>& ratios, const std::vector<double>& samples_ms,
                           double bound_ms) {
  TaskState& task = tasks_[p.task];
  ++trials_;
  if (task.trial(p.schedule, ratios)) ++first_trials_;
  task.note_bound(p.schedule, bound_ms);
  LogRatios own;
  for (const double ratio : ratios) own.add(ratio);
  fresh_.push_back(record(p, samples_ms, own.ratio(noise_)));
  const LogRatios& all = task.find(p.schedule)->ratios;
  untold_.emplace_back(trials_,
                       TrialEvent{task.task().number, p.node, p.schedule.text(), Status::ok, "", own.ratio(noise_),
                                  all.ratio(noise_), own.size(), all.size(), speed(p.task, all.cost(), bound_ms)});
}

void SearchRun::note_failure(const Probe& probe, Status status, const std::string& error, bool lasting) {
  tasks_[probe.task].fail(probe.schedule, status, error);
  ++failures_;
  const int64_t number = tasks_[probe.task].task().number;
  ++failed_.try_emplace(status, FailedTrials{0, number, probe.schedule.text(), error}).first->second.count;
  untold_.emplace_back(trials_, TrialEvent{number, probe.node, probe.schedule.text(), status, error, {}, {}, 0, 0});
  if (!lasting) return;
  Record r = blank_record(probe);
  r.status = status, r.error = error;
  fresh_.push_back(std::move(r));
}

}  // namespace kilter::tune
