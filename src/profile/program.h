// Profiles of networks that run as programs (vm/program.h): one row for each instruction that ran.
//
// A row's time is that between the begin and the end of its instruction, all its executions together, without the
// instructions of its regions, which have rows of their own below it. The layers of a compiled segment have rows below
// it, and its own time is that between them; that of another segment is the time in its reference kernels. Three
// further rows have the rest: the choice of the segments' code and the memory of their outputs, the time between the
// instructions of the network, and that before the first and after the last of them. So the rows add up to the run.
#pragma once

#include <map>
#include <string>

#include "compile/session.h"
#include "profile/profile.h"

namespace kilter::profile {

/// Profiles whole runs of a network that runs as a program, whatever session.runs_program() says. Of the options,
/// counters and observer have no effect. The timeline is one run of its own.
Profile collect_program(Session& session, const std::map<std::string, AnyValue>& inputs, const Options& options = {});

/// Returns the conditions of a measurement of a program that this session runs.
Conditions program_conditions(Session& session);

}  // namespace kilter::profile
