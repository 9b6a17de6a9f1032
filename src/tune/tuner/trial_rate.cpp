#include "tune/tuner/trial_rate.h"

#include <map>
#include <optional>

#include "measure/conditions.h"

namespace kilter::tune {
namespace {

constexpr int64_t kPause = 30;                           ///< seconds
constexpr int64_t kLeastTrials = 50, kLeastSeconds = 5;  ///< fewer than these give no rate

/// Number of trials by date, to the second.
using Dates = std::map<std::string, int64_t>;

std::optional<double> rate_of(const Dates& dates) {
  int64_t trials = 0, seconds = 0;
  std::optional<int64_t> last;
  for (const auto& [date, count] : dates) {  // ISO 8601 dates sort by time
    const auto second = second_of(date);
    if (!second) continue;
    trials += count;
    seconds += last && *second - *last < kPause ? *second - *last : 1;
    last = second;
  }
  if (trials < kLeastTrials || seconds < kLeastSeconds) return std::nullopt;
  return static_cast<double>(trials) / static_cast<double>(seconds);
}

}  // namespace

TrialRate trial_rate(std::span<const Record* const> records, const std::string& network) {
  Dates all, own;
  for (const Record* r : records) {
    ++all[r->conditions.date];
    if (r->network == network) ++own[r->conditions.date];
  }
  if (const auto rate = rate_of(own)) return {TrialRate::network, *rate};
  if (const auto rate = rate_of(all)) return {TrialRate::machine, *rate};
  return {};
}

}  // namespace kilter::tune
