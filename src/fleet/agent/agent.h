// An agent of a fleet: leases jobs of its device class, does them on this machine, and delivers the results.
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
  std::string device_class;      ///< whose jobs it does
  std::string device;            ///< this machine, as results name it
  std::string facts = "{}";      ///< a JSON object for those who look at the agents
  Trust trust;                   ///< whose jobs it runs; others are answered with an error
  Upgrades* upgrades = nullptr;  ///< takes the programs that the fleet offers; null: none
  double lease_seconds = 30;
  std::filesystem::path worker = {};                  ///< RunnerOptions::worker
  std::function<void(const std::string&)> tell = {};  ///< receives a line when something happens; may be empty
};

/// How an agent ended.
struct AgentEnd {
  int64_t done = 0;       ///< jobs
  bool replaced = false;  ///< the program's file is a newer one, which should run now
};

/// Does jobs until `stop` is set, the fleet drains the agent, or a newer program has replaced its own: then it ends the
/// job that it does. While the source cannot be reached, it tries again and again. Throws usage for a
/// name that another user's agent has, and what `connect` throws except io.
AgentEnd run_agent(const AgentOptions& options, const std::atomic<bool>& stop);

}  // namespace kilter::fleet
