#include "fleet/agent/job_source.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace kilter::fleet {
namespace {

constexpr std::array<std::string_view, 4> kDeliveries = {"stored", "duplicate", "cancelled", "set aside"};

}  // namespace

std::string_view name(Delivery delivery) { return kDeliveries[static_cast<size_t>(delivery)]; }

Delivery delivery_of(std::string_view name) {
  const auto found = std::ranges::find(kDeliveries, name);
  require(found != kDeliveries.end(), "the queue's answer '{}' is unknown", name);
  return static_cast<Delivery>(found - kDeliveries.begin());
}

}  // namespace kilter::fleet
