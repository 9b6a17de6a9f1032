// Inputs and outputs of a network that are stored in a different type: those of a problem line, whose task reads values
// that other tasks of its network write, and the reverse.
#pragma once

#include <functional>
#include <string>

#include "passes/pass.h"

namespace kilter {

/// Whether PassContext::stored_ports stores a port as `type`.
bool stores_port(const PassContext& context, const std::string& port, DType type);

/// Adds copies of the inputs and outputs that are stored as `type`, so that all layers read and write values that may
/// be stored so. Asks `changes` whether the graph may be changed.
void store_ports(Graph& graph, const PassContext& context, DType type, const std::function<bool()>& changes);

}  // namespace kilter
