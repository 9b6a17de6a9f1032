#include "fleet.h"

#include <cstdlib>
#include <optional>

#include "base/error.h"
#include "fleet/remote_runner.h"
#include "target/target.h"

namespace kilter::tool {

void FleetOptions::add_to(Command app) {
  app.heading("Fleet");
  app.option("--fleet", url,
             "compile here, and measure on a machine whose kilter-agent is in the fleet with this database: "
             "postgresql://USER@HOST/DATABASE")
      .value("URL");
  app.option("--device-class", device_class, "the class of the agents that measure (default: the target's name)")
      .value("CLASS");
  add_key_to(app);
}

void FleetOptions::add_key_to(Command app) {
  app.option(
         "--sign-key", sign_key,
         "the secret key that signs what the agents run (default: $KILTER_FLEET_KEY, else unsigned, for agents with "
         "--trust-anyone)")
      .file();
}

void FleetOptions::check() const {
  if (url.empty() && !device_class.empty())
    fail(ErrorKind::usage, "--device-class {}: only a fleet has device classes; give --fleet URL as well",
         device_class);
  if (url.empty() && !sign_key.empty())
    fail(ErrorKind::usage, "--sign-key {}: only jobs of a fleet are signed; give --fleet URL as well", sign_key);
}

std::optional<SecretKey> FleetOptions::key() const {
  const char* const given = std::getenv("KILTER_FLEET_KEY");
  const std::string file = !sign_key.empty() ? sign_key : given != nullptr ? given : "";
  if (file.empty()) return std::nullopt;
  try {
    return read_secret_key(file);
  } catch (const Error& e) {
    fail(e.kind(), "{}: {}", sign_key.empty() ? "KILTER_FLEET_KEY" : "--sign-key", e.message());
  }
}

std::string fleet_or_variable(const std::string& url) {
  const char* const given = std::getenv("KILTER_FLEET");
  return url.empty() && given != nullptr ? given : url;
}

std::string required_fleet(const std::string& url) {
  std::string place = fleet_or_variable(url);
  if (place.empty()) fail(ErrorKind::usage, "--fleet URL is missing; the variable KILTER_FLEET can also give it");
  return place;
}

AgentMachine machine_for(const FleetOptions& fleet, ModelOptions& model) {
  (void)fleet.key();  // errors of the user's files come first
  AgentMachine machine =
      machine_of_class(fleet.url, fleet.device_class.empty() ? parse_target(model.target).name : fleet.device_class);
  if (machine.device.empty()) machine.device = machine.agent;  // records need a device
  model.target = target_on(machine, model.target);
  if (model.threads == 0) model.threads = machine.cpus;
  return machine;
}

void measure_on_fleet(const FleetOptions& fleet, tune::TuneOptions& options, FleetMeasurement& out) {
  kilter::fleet::RemoteOptions remote;
  remote.url = fleet.url, remote.device_class = out.machine.device_class, remote.key = fleet.key();
  remote.overhead = [&out](double ms) { out.overhead_ms += ms; };
  options.runner.machine = {out.machine.conditions(), out.machine.caches};
  options.runner.make = [remote](tune::RunnerOptions made) -> std::unique_ptr<tune::Runner> {
    return std::make_unique<kilter::fleet::RemoteRunner>(remote, std::move(made));
  };
  out.peaks = [remote](int threads) { return kilter::fleet::RemoteRunner(remote, {}).measure_peaks(threads); };
}

}  // namespace kilter::tool
