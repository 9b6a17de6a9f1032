// Checks of nodes with regions.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/any_value.h"
#include "graph/open_graph.h"

namespace kilter::vm {

/// Returns the index of the region of that attribute. Throws bad_model unless its graph has `inputs` inputs of its own
/// and at least `least_outputs` outputs.
size_t region_of(const OpenNode& node, std::string_view attribute, size_t inputs, size_t least_outputs);
/// Returns a condition as a bool. Throws bad_model, calling it `what`, unless it is one bool.
bool truth(const OpenNode& node, const AnyValue& value, std::string_view what);
/// Returns the index of the region that an If runs.
size_t chosen_branch(const OpenNode& node, const AnyValue& condition);

}  // namespace kilter::vm
