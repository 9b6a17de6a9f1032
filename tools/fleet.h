// Options of commands that measure on another machine, through an agent of a fleet.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "agent_machine.h"
#include "command_line.h"
#include "exec/signature.h"
#include "measure/machine/machine_peaks.h"
#include "tool.h"
#include "tune/tuner/tuner.h"

namespace kilter::tool {

struct FleetOptions {
  std::string url;           ///< of the fleet's database; empty: measure here
  std::string device_class;  ///< empty: the target's name
  std::string sign_key;      ///< file of the secret key; empty: that of KILTER_FLEET_KEY, if it is set

  void add_to(Command app);
  void add_key_to(Command app);
  /// Throws usage for an option without a fleet.
  void check() const;
  /// Reads the secret key that is given. Throws the errors of read_secret_key(), naming where the file is given.
  std::optional<SecretKey> key() const;
};

/// Returns the URL; if it is empty, that of KILTER_FLEET; otherwise an empty string.
std::string fleet_or_variable(const std::string& url);
/// Returns fleet_or_variable(). Throws usage if it is empty.
std::string required_fleet(const std::string& url);

/// The part of a tuning run that happens on a fleet.
struct FleetMeasurement {
  AgentMachine machine;                     ///< of the agent that was heard from last
  double overhead_ms = 0;                   ///< RemoteOptions::overhead, of all calls
  std::function<Peaks(int threads)> peaks;  ///< measures the peaks of the machine
};

/// Returns the machine that measures. The device class is by default the name of the target. Sets the model's target
/// "native" and its number of threads by default to those of the machine. Throws what machine_of_class(),
/// target_on() and FleetOptions::key() throw.
AgentMachine machine_for(const FleetOptions& fleet, ModelOptions& model);
/// Makes a tuning run measure on the fleet, on agents of the class of `out.machine`, and adds the overhead to `out`,
/// which must live as long as the run.
void measure_on_fleet(const FleetOptions& fleet, tune::TuneOptions& options, FleetMeasurement& out);

}  // namespace kilter::tool
