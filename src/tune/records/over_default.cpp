#include "tune/records/over_default.h"

#include <cmath>
#include <utility>

namespace kilter::tune {
namespace {

Ratio inverse(const Ratio& r) { return {1 / r.value, 1 / r.high, 1 / r.low}; }

/// Product of two ratios that were measured separately, so that their relative errors are independent.
Ratio product(const Ratio& a, const Ratio& b) {
  const double value = a.value * b.value;
  const double down = std::hypot(std::log(a.value / a.low), std::log(b.value / b.low));
  const double up = std::hypot(std::log(a.high / a.value), std::log(b.high / b.value));
  return {value, value * std::exp(-down), value * std::exp(up)};
}

}  // namespace

OverDefault::OverDefault(std::span<const Record* const> records, std::string fallback)
    : fallback_(std::move(fallback)) {
  if (fallback_.empty()) return;
  for (const Record* r : records) {
    if (r->status != Status::ok || !r->versus || r->schedule == r->versus->schedule) continue;
    const size_t samples = r->samples_ms.size();
    if (r->schedule == fallback_) add(r->versus->schedule, {inverse(r->versus->ratio), samples});
    if (r->versus->schedule == fallback_) add(r->schedule, {r->versus->ratio, samples});
  }
}

// Keeps the link with the most samples; of equal ones, the one whose ratio has the higher upper end.
void OverDefault::add(const std::string& other, const Link& link) {
  const auto [known, fresh] = links_.try_emplace(other, link);
  const auto worth = [](const Link& l) { return std::pair(l.samples, l.ratio.high); };
  if (!fresh && worth(link) > worth(known->second)) known->second = link;
}

bool OverDefault::converts(const Record& r) const {
  return !fallback_.empty() && r.versus && r.versus->schedule != fallback_ && r.schedule != fallback_ &&
         links_.contains(r.versus->schedule);
}

std::optional<Ratio> OverDefault::of(const Record& r) const {
  if (!r.versus) return std::nullopt;
  if (fallback_.empty() || r.versus->schedule == fallback_) return r.versus->ratio;
  if (r.schedule == fallback_) return Ratio{1, 1, 1};
  const auto link = links_.find(r.versus->schedule);
  return link == links_.end() ? std::nullopt : std::optional(product(r.versus->ratio, link->second.ratio));
}

}  // namespace kilter::tune
