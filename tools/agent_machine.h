// The machine of an agent, as the agent describes it to the fleet.
#pragma once

#include <string>
#include <vector>

#include "fleet/queue.h"
#include "measure/caches.h"
#include "measure/conditions.h"

namespace kilter::tool {

/// What an agent reports about its machine. Fields that an agent of an earlier version does not report are empty.
struct AgentMachine {
  std::string agent, device_class;
  std::string device;  ///< Device::fingerprint()
  std::string processor, target;
  std::vector<std::string> targets;  ///< targets whose code it runs
  std::string pinning, huge_pages, clock;
  CacheSizes caches;
  int cpus = 1;

  /// Returns the conditions of measurements there. The caller sets the threads, the samples and the program's version.
  Conditions conditions() const;
};

AgentMachine machine_of(const kilter::fleet::QueueAgent& agent);
/// Returns the machine of the agent of the class that was heard from last. Throws io if none was heard from for a
/// minute, and what Queue() throws.
AgentMachine machine_of_class(const std::string& fleet, const std::string& device_class);
/// Returns "agent bench1 of the device class bench (AMD EPYC, 2 CPUs, ...)".
std::string machine_text(const AgentMachine& machine);
/// Returns the target that --target asks for; "native" means the machine of the agent. Throws usage if that machine is
/// known not to run its code.
std::string target_on(const AgentMachine& machine, const std::string& target);

}  // namespace kilter::tool
