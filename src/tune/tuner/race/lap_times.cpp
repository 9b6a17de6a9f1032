#include "tune/tuner/race/lap_times.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "measure/stats.h"

namespace kilter::tune {

LayerTime layer_time(const Lap& lap, const std::vector<size_t>& steps) {
  LayerTime out{0, !lap.held_up};
  for (const size_t s : steps) {
    out.ms += lap.step_ms[s] + lap.gap_ms[s];
    out.alone = out.alone && lap.width[s] < kShared;
  }
  return out;
}

LayerTime layer_time(const std::vector<Lap>& laps, int64_t round, const std::vector<size_t>& steps) {
  double all = 0, alone = 0;
  int64_t all_count = 0, alone_count = 0;
  for (const Lap& lap : laps) {
    if (lap.round != round) continue;
    const LayerTime one = layer_time(lap, steps);
    all += one.ms, ++all_count;
    if (one.alone) alone += one.ms, ++alone_count;
  }
  if (alone_count > 0) return {alone / static_cast<double>(alone_count), true};
  return {all_count > 0 ? all / static_cast<double>(all_count) : 0, false};
}

double usual_ms(const std::vector<Lap>& laps, const std::vector<size_t>& steps) {
  std::vector<double> all, alone;
  for (const Lap& lap : laps) {
    const LayerTime one = layer_time(lap, steps);
    all.push_back(one.ms);
    if (one.alone) alone.push_back(one.ms);
  }
  return mean_of_middle_half(alone.empty() ? all : alone);
}

double run_ms(const std::vector<Lap>& laps, int64_t round) {
  double rest = 0;
  int64_t count = 0;
  size_t steps = 0;
  for (const Lap& lap : laps) {
    if (lap.round != round) continue;
    steps = lap.step_ms.size();
    rest += lap.total_ms, ++count;
    for (size_t s = 0; s < steps; ++s) rest -= lap.step_ms[s] + lap.gap_ms[s];
  }
  if (count == 0) return 0;
  double ms = rest / static_cast<double>(count);
  for (size_t s = 0; s < steps; ++s) ms += layer_time(laps, round, {s}).ms;
  return ms;
}

std::string reasons(const Laps& laps) {
  std::vector<std::string> words;
  for (const Fault& f : laps.faults) words.push_back(f.words);
  return words.empty() ? "no reason is known" : join(words, "; ");
}

double default_run_ms(const Laps& laps) {
  std::vector<double> totals;
  for (int64_t round = 0; round < laps.rounds; ++round) {
    if (const double ms = run_ms(laps.laps.front(), round); ms > 0) totals.push_back(ms);
  }
  if (totals.empty()) {
    fail(ErrorKind::unsupported, "the network under its default schedules cannot be timed: {}", reasons(laps));
  }
  return mean_of_middle_half(totals);
}

bool UsualTimes::is_usual(const std::string& layer, double ms) {
  double& least = least_.try_emplace(layer, ms).first->second;
  least = std::min(least, ms);
  return ms <= kMost * least;
}

}  // namespace kilter::tune
