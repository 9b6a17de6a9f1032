// `kilter fleet bench`: the times of networks on the machines of a fleet, as a table.
#pragma once

#include "command_line.h"
#include "tool.h"

namespace kilter::tool {

/// Adds `bench` to the command `fleet`.
void add_fleet_bench(const Command& fleet, Context& context);

}  // namespace kilter::tool
