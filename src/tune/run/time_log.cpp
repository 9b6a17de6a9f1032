#include "tune/run/time_log.h"

#include <cmath>
#include <cstring>
#include <utility>

namespace kilter::tune {
namespace {

bool is_time(double value) { return std::isfinite(value) && value >= 0; }

/// Takes the next value from the front. Returns false if there are not enough bytes.
template <Plain T>
bool take(std::span<const std::byte>& bytes, T& value) {
  if (bytes.size() < sizeof(T)) return false;
  std::memcpy(static_cast<void*>(&value), bytes.data(), sizeof(T));
  bytes = bytes.subspan(sizeof(T));
  return true;
}

bool take_steps(std::span<const std::byte>& bytes, size_t steps, Lap& lap) {
  for (size_t s = 0; s < steps; ++s) {
    StepTimes times;
    if (!take(bytes, times) || !is_time(times.step_ms) || !is_time(times.gap_ms) || !is_time(times.width_ns))
      return false;
    lap.step_ms.push_back(times.step_ms);
    lap.gap_ms.push_back(times.gap_ms);
    lap.width.push_back(times.width_ns);
  }
  return true;
}

}  // namespace

std::optional<std::vector<LoggedLap>> read_laps(std::span<const std::byte> log,
                                                const std::map<VariantId, size_t>& steps,
                                                const RoundsRequest& request) {
  std::vector<LoggedLap> laps;
  int64_t round = request.first_round, order = request.first_order;
  const int64_t end_round = request.first_round + request.rounds;
  while (!log.empty()) {
    LapHeader h;
    if (!take(log, h)) return std::nullopt;
    const auto known = steps.find(h.variant);
    if (known == steps.end() || h.steps < 0 || static_cast<size_t>(h.steps) != known->second) return std::nullopt;
    if (h.round < round || h.round >= end_round || h.order != order || !is_time(h.total_ms)) return std::nullopt;
    round = h.round;
    ++order;
    LoggedLap& logged = laps.emplace_back();
    logged.variant = h.variant;
    Lap& lap = logged.lap;
    lap.round = h.round, lap.order = h.order, lap.total_ms = h.total_ms;
    lap.disturbance = {h.wall_ms,     h.steal_ms,    h.wait_ms,       h.switches,    h.drift,
                       h.stolen != 0, h.waited != 0, h.switched != 0, h.drifted != 0};
    if (!take_steps(log, known->second, lap)) return std::nullopt;
  }
  return laps;
}

}  // namespace kilter::tune
