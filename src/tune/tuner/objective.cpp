#include "tune/tuner/objective.h"

#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/text.h"

namespace kilter::tune {
namespace {

/// Refuses the text `given` for the reason `why`.
[[noreturn]] void refuse(std::string_view given, const std::string& why) {
  fail(ErrorKind::usage,
       "--objective {}: {}; legal values are latency, memory, or weights in percent that add up to 100, such as "
       "latency:80,memory:20",
       given, why);
}

/// Parses the weights of "latency:80,memory:20".
TuneObjective parse_weights(std::string_view given) {
  std::optional<int> latency, memory;
  for (const std::string_view part : split(given, ',')) {
    const size_t colon = part.find(':');
    const std::string_view name = trim(part.substr(0, colon));
    if (name != "latency" && name != "memory") refuse(given, fmt::format("unknown objective '{}'", name));
    if (colon == std::string_view::npos) refuse(given, fmt::format("'{}' has no weight", name));
    const std::string_view weight = trim(part.substr(colon + 1));
    const auto percent = try_parse_int(weight);
    if (!percent || *percent < 1 || *percent > 100)
      refuse(given, fmt::format("the weight of {} is '{}', expected a whole number from 1 to 100", name, weight));
    std::optional<int>& to = name == "latency" ? latency : memory;
    if (to) refuse(given, fmt::format("'{}' is given twice", name));
    to = static_cast<int>(*percent);
  }
  const int sum = latency.value_or(0) + memory.value_or(0);
  if (sum != 100) refuse(given, fmt::format("the weights add up to {}", sum));
  return memory == 100 ? kMemoryObjective : TuneObjective{latency.value_or(0), memory.value_or(0)};
}

}  // namespace

Ratio TuneObjective::score(const Ratio& time, double bytes) const {
  if (!weighs_memory()) return time;
  const auto mean = [&](double ratio) {
    return std::exp((latency * std::log(ratio) + memory * std::log(bytes)) / 100);
  };
  return {mean(time.value), mean(time.low), mean(time.high)};
}

double TuneObjective::price(double time, double bytes) const {
  return weighs_memory() ? static_cast<double>(memory) / latency * time / bytes : 0;
}

TuneObjective parse_objective(std::string_view given) {
  if (given == "latency") return {};
  if (given == "memory") return kMemoryObjective;
  return parse_weights(given);
}

std::string text(const TuneObjective& objective) {
  if (objective == TuneObjective{}) return "latency";
  if (objective == kMemoryObjective) return "memory";
  return fmt::format("latency:{},memory:{}", objective.latency, objective.memory);
}

}  // namespace kilter::tune
