#include "agent_machine.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/text.h"
#include "fleet/remote_runner.h"
#include "target/target.h"

namespace kilter::tool {

AgentMachine machine_of(const kilter::fleet::QueueAgent& agent) {
  const nlohmann::json facts = try_parse_json(agent.facts);
  const auto text = [&](const char* key) {
    const auto at = facts.find(key);
    return at != facts.end() && at->is_string() ? at->get<std::string>() : std::string();
  };
  AgentMachine out;
  out.agent = agent.name, out.device_class = agent.device_class;
  if (!facts.is_object()) return out;
  out.device = text("device"), out.processor = text("processor"), out.target = text("target");
  out.pinning = text("pinning"), out.huge_pages = text("huge_pages"), out.clock = text("clock");
  if (const auto cpus = facts.find("cpus"); cpus != facts.end() && cpus->is_number_integer())
    out.cpus = static_cast<int>(std::clamp<int64_t>(cpus->get<int64_t>(), 1, 1024));
  if (const auto names = facts.find("targets"); names != facts.end() && names->is_array()) {
    for (const nlohmann::json& name : *names) {
      if (name.is_string()) out.targets.push_back(name.get<std::string>());
    }
  }
  const auto bytes = facts.find("cache_bytes");
  const auto whole = [](const nlohmann::json& n) { return n.is_number_integer(); };
  if (bytes != facts.end() && bytes->is_array() && bytes->size() == 3 && std::ranges::all_of(*bytes, whole)) {
    out.caches = {bytes->at(0).get<int64_t>(), bytes->at(1).get<int64_t>(), bytes->at(2).get<int64_t>()};
  }
  return out;
}

std::string machine_text(const AgentMachine& machine) {
  const std::string device = machine.device.empty() ? "device not known" : machine.device;
  return fmt::format("agent {} of the device class {} ({})", printable(machine.agent), printable(machine.device_class),
                     printable(device));
}

AgentMachine machine_of_class(const std::string& fleet, const std::string& device_class) {
  kilter::fleet::Queue queue(fleet);
  return machine_of(agent_of_class(queue, device_class, kilter::fleet::RemoteOptions().patience_seconds));
}

std::string target_on(const AgentMachine& machine, const std::string& target) {
  if (target == "native") {
    if (!machine.target.empty()) return machine.target;
    fail(ErrorKind::usage, "{} does not report its target; name one with --target", machine_text(machine));
  }
  const std::string name = parse_target(target).name;
  const bool known = std::ranges::any_of(all_targets(), [&](const TargetRow& row) { return row.name == name; });
  const auto& runs = machine.targets;
  if (known && !runs.empty() && std::ranges::find(runs, name) == runs.end()) {
    fail(ErrorKind::usage,
         "--target {}: {} cannot run its code; it runs {}; name one of these, or leave --target out for {}", target,
         machine_text(machine), join(runs, ", "), machine.target);
  }
  return target;
}

Conditions AgentMachine::conditions() const {
  Conditions out = current_conditions();  // for the date
  out.device = device;
  out.pinning = pinning, out.huge_pages = huge_pages, out.clock = clock;
  return out;
}

}  // namespace kilter::tool
