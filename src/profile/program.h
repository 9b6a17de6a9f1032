// Profiles of networks that run as programs (vm/program.h): one row for each instruction that ran.
//
// A row's time is the time between the begin and the end of its instruction, for all its executions together, without
// the instructions of its regions, which have rows of their own below it. The layers of a compiled segment have rows
// below the segment's, whose time is then the time between the layers; the time of any other segment is that of its
// reference kernels. Three more rows contain the rest: choosing the segments' plans and allocating memory for their
// outputs, the time between the instructions of the network, and the time before the first and after the last of them.
// The rows thus add up to the run.
#pragma once

#include <map>
#include <string>

#include "compile/session.h"
#include "profile/profile.h"

namespace kilter::profile {

/// Profiles whole runs of a network that runs as a program, whatever session.runs_program() returns. Of the options,
/// counters and observer have no effect. The timeline is that of a separate run.
Profile collect_program(Session& session, const std::map<std::string, AnyValue>& inputs, const Options& options = {});

/// Returns the conditions of a measurement of a program that this session runs.
Conditions program_conditions(Session& session);

}  // namespace kilter::profile
