// The gain that tuning has brought for a profiled network, and the gain that further tuning may bring, according to
// tuning records.
#pragma once

#include "profile/profile.h"
#include "tool.h"

namespace kilter::tool {

/// Reads the records that --records names, or the default file if it names none. If that fails, the returned lines say
/// why; the profile stays valid. Reports damaged records on standard error. `minutes` is the duration of the further
/// tuning whose gain is predicted. `graph`: the network before the passes. Returns nothing for a compiled file, which
/// cannot be tuned.
std::optional<profile::Tuning> look_ahead(const profile::Profile& profile, const ModelOptions& options,
                                          const Session& session, const std::function<Graph()>& graph, double minutes);

/// Adds the option --minutes of the commands that predict the gain of further tuning.
Option add_minutes(Command app, double& minutes);

}  // namespace kilter::tool
