// Options of commands that measure on another machine, by an agent of a fleet.
#pragma once

#include <optional>
#include <string>

#include "command_line.h"
#include "exec/signature.h"
#include "target/target.h"
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

/// The part of a tuning run that happens on a fleet.
struct FleetMeasurement {
  std::string device;  ///< of the agent, as records name it
  std::string agent;   ///< that was heard of last
  std::string device_class;
  double overhead_ms = 0;  ///< RemoteOptions::overhead, of all calls
};

/// Makes a tuning run measure on the fleet, and adds the overhead to `out`, which must live as long as the run. Throws
/// io if no agent of the class is heard of, and the errors of read_secret_key().
void measure_on_fleet(const FleetOptions& fleet, const Target& target, tune::TuneOptions& options,
                      FleetMeasurement& out);

}  // namespace kilter::tool
