#include "fleet/agent/health.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "measure/clock.h"
#include "measure/peaks.h"

namespace kilter::fleet {
namespace {

std::optional<double> number_in(const std::filesystem::path& file) {
  double value = 0;
  std::ifstream from(file);
  return from >> value ? std::optional(value) : std::nullopt;
}

/// Returns the numbers in FOLDER/PREFIX*/FILE of all folders with that prefix.
std::vector<double> numbers_in(const std::filesystem::path& folder, std::string_view prefix, const char* file) {
  std::vector<double> values;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (!entry.path().filename().string().starts_with(prefix)) continue;
    if (const auto value = number_in(entry.path() / file)) values.push_back(*value);
  }
  return values;
}

}  // namespace

void Health::measure(double seconds) {
  if (now_ms() - measured_ms_ < seconds * 1e3) return;
  nlohmann::json state;
  const double reference = measure_peak(1, 30).rate;
  state["reference"] = reference;
  if (reference_) state["drift"] = reference / *reference_;
  if (const auto load = number_in(root_ + "proc/loadavg")) state["load"] = *load;
  const std::vector<double> heat = numbers_in(root_ + "sys/class/thermal", "thermal_zone", "temp");
  if (!heat.empty()) state["temperature"] = *std::ranges::max_element(heat) / 1e3;
  const std::vector<double> slowed =
      numbers_in(root_ + "sys/devices/system/cpu", "cpu", "thermal_throttle/core_throttle_count");
  if (!slowed.empty()) state["throttled"] = *std::ranges::max_element(slowed);
  reference_ = reference;
  measured_ms_ = now_ms();
  const std::lock_guard hold(lock_);
  text_ = json_text(state);
}

std::string Health::text() const {
  const std::lock_guard hold(lock_);
  return text_;
}

}  // namespace kilter::fleet
