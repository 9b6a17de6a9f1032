#include "fleet/status.h"

#include <fmt/format.h>

#include <string_view>

#include "base/json_text.h"

namespace kilter::fleet {
namespace {

nlohmann::json to_json(const QueueAgent& agent) {
  return {{"name", agent.name},
          {"login", agent.login},
          {"device_class", agent.device_class},
          {"state", state_of(agent)},
          {"facts", try_parse_json(agent.facts)},
          {"health", try_parse_json(agent.state)},
          {"relative_speed", agent.relative_speed ? nlohmann::json(*agent.relative_speed) : nlohmann::json()},
          {"seen_seconds", agent.seen_seconds},
          {"started_seconds", agent.started_seconds},
          {"leases", agent.leases},
          {"done", agent.done},
          {"failed", agent.failed}};
}

/// Returns the value of a label, in quotes.
std::string label(std::string_view value) {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') out += "\\n";
    if (c != '\n') out += c;
  }
  return out + '"';
}

}  // namespace

FleetStatus status_of(Queue& queue) { return {queue.agents(), queue.job_counts()}; }

std::string state_of(const QueueAgent& agent) {
  if (agent.seen_seconds > kSilentSeconds) return "silent";
  if (agent.draining) return "draining";
  if (agent.outlier) return "outlier";
  return agent.leases > 0 ? "works" : "waits";
}

std::string device_of(const QueueAgent& agent) {
  const nlohmann::json facts = try_parse_json(agent.facts);
  const auto device = facts.is_object() ? facts.find("device") : facts.end();
  return device != facts.end() && device->is_string() ? device->get<std::string>() : "";
}

nlohmann::json to_json(const FleetStatus& status) {
  nlohmann::json out{{"agents", nlohmann::json::array()}, {"jobs", status.jobs}};
  for (const QueueAgent& agent : status.agents) out["agents"].push_back(to_json(agent));
  return out;
}

std::string metrics_text(const FleetStatus& status) {
  std::string out;
  const auto head = [&](const char* name, const char* type, const char* help) {
    out += fmt::format("# HELP kilter_{0} {2}\n# TYPE kilter_{0} {1}\n", name, type, help);
  };
  const auto each = [&](const char* name, const char* type, const char* help, auto value_of) {
    head(name, type, help);
    for (const QueueAgent& a : status.agents) {
      const std::optional<double> value = value_of(a);
      if (value)
        out += fmt::format("kilter_{}{{agent={},device_class={}}} {}\n", name, label(a.name), label(a.device_class),
                           *value);
    }
  };
  const auto health = [&](const char* name, const char* field, const char* help) {
    each(name, "gauge", help, [&](const QueueAgent& a) -> std::optional<double> {
      const nlohmann::json state = try_parse_json(a.state);
      const auto found = state.is_object() ? state.find(field) : state.end();
      return found != state.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
    });
  };
  head("jobs", "gauge", "Jobs that wait, are leased, or were set aside.");
  for (const auto& [state, count] : status.jobs)
    out += fmt::format("kilter_jobs{{state={}}} {}\n", label(state), count);
  each("agent_up", "gauge", "Whether the agent was heard from in the last 30 s.",
       [](const QueueAgent& a) { return a.seen_seconds > kSilentSeconds ? 0 : 1; });
  each("agent_seen_seconds", "gauge", "Seconds since the agent's last heartbeat.",
       [](const QueueAgent& a) { return a.seen_seconds; });
  each("agent_leases", "gauge", "Jobs that the agent has.", [](const QueueAgent& a) { return a.leases; });
  each("agent_jobs_done_total", "counter", "Jobs that the agent delivered.",
       [](const QueueAgent& a) { return a.done; });
  each("agent_jobs_failed_total", "counter", "Jobs that the agent failed, or whose leases ran out.",
       [](const QueueAgent& a) { return a.failed; });
  each("agent_relative_speed", "gauge", "Speed of the reference kernel relative to the median of the class.",
       [](const QueueAgent& a) { return a.relative_speed; });
  health("agent_reference_gflops", "reference", "Speed of the reference kernel on one thread.");
  health("agent_load", "load", "Runnable processes of the machine over the last minute.");
  health("agent_temperature_celsius", "temperature", "The machine's hottest sensor.");
  health("agent_throttled_total", "throttled", "How often a core was slowed because of heat.");
  return out;
}

}  // namespace kilter::fleet
