// An agent of a fleet: leases jobs of its device class, runs them on this machine, and delivers the results.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "fleet/agent/agent_program.h"
#include "fleet/agent/job_source.h"
#include "fleet/agent/signed_job.h"

namespace kilter::fleet {

struct AgentOptions {
  Connect connect;               ///< called whenever a connection is needed; throws the errors of JobSource
  std::string name;              ///< unique in the fleet
  std::string device_class;      ///< the class whose jobs it runs
  std::string device;            ///< this machine, as named in results
  std::string facts = "{}";      ///< a JSON object, shown to users
  Trust trust;                   ///< whose jobs it runs; other jobs are answered with an error
  Upgrades* upgrades = nullptr;  ///< installs programs that the fleet offers; null: never
  double lease_seconds = 30;
  std::filesystem::path worker = {};                  ///< RunnerOptions::worker
  std::function<void(const std::string&)> tell = {};  ///< receives log lines; may be empty
};

/// How an agent ended.
struct AgentEnd {
  int64_t done = 0;       ///< number of jobs
  bool replaced = false;  ///< a newer program has replaced the file and should run now
};

/// Runs jobs until `stop` is set, the fleet drains the agent, or a newer program has replaced its own; finishes the
/// current job first. While the source cannot be reached, it keeps trying. Throws usage if another user's agent has
/// this name, and what `connect` throws except io.
AgentEnd run_agent(const AgentOptions& options, const std::atomic<bool>& stop);

}  // namespace kilter::fleet
