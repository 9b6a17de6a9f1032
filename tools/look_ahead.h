// What tuning has brought to a network that was profiled, and what more of it may bring, as records tell.
#pragma once

#include "profile/profile.h"
#include "tool.h"

namespace kilter::tool {

/// By the records that --records names, else those of the default file. Nobody asked for that one: where it cannot be
/// read, the lines say why. What is damaged in it goes to standard error. `minutes`: of more tuning. Nothing for a
/// compiled file, which cannot be tuned.
std::optional<profile::Tuning> look_ahead(const profile::Profile& profile, const ModelOptions& options,
                                          const Session& session, const std::map<std::string, Tensor>& inputs,
                                          double minutes);

/// --minutes of the commands that look ahead.
void add_minutes(CLI::App& app, double& minutes);

}  // namespace kilter::tool
