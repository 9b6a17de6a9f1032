// The state of a fleet, as shown by `kilter fleet status`, the broker's page, and Prometheus.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fleet/queue.h"

namespace kilter::fleet {

/// An agent that has not been heard from for this many seconds is gone, or cannot reach the server.
constexpr double kSilentSeconds = 30;

struct FleetStatus {
  std::vector<QueueAgent> agents;
  std::map<std::string, int64_t> jobs;  ///< number of jobs by QueueJob::state, of those that have not ended
};

FleetStatus status_of(Queue& queue);
/// "silent", "draining", "outlier", "works" or "waits".
std::string state_of(const QueueAgent& agent);
/// Returns the device as the agent describes it, or an empty string.
std::string device_of(const QueueAgent& agent);
/// An object with the lists "agents" and "jobs".
nlohmann::json to_json(const FleetStatus& status);
/// Returns the metrics in Prometheus' text format.
std::string metrics_text(const FleetStatus& status);

}  // namespace kilter::fleet
