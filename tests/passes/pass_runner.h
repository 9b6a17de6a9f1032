// One pass on one graph: what the tests of this folder share.
#pragma once

#include <string>
#include <string_view>

#include "ops/support/cases.h"
#include "passes/pass.h"

namespace kilter {

/// A pass with the limits of a target, whose block is its vector width in floats; answers the rewrites it made.
int64_t run_pass(PassFunction pass, Graph& graph, std::string_view target = "x86-64-v3", int64_t most = INT64_MAX);

/// Nodes and outputs of a graph in text form, constants left out.
std::string nodes_text(const Graph& graph);

/// Nodes and outputs after a pass has run over a graph given as text; the graph is verified before and after, and the
/// pass makes no rewrite when it runs again.
std::string after(PassFunction pass, std::string_view graph, std::string_view target = "x86-64-v3");

/// A graph in text form with one part replaced; a failure of the test when it does not hold that part.
std::string with(std::string text, std::string_view from, std::string_view to);

/// Whether a pass leaves a graph given as text as it is and counts no rewrite; else what it made of it.
std::string unchanged(PassFunction pass, std::string_view graph, std::string_view target = "x86-64-v3");

}  // namespace kilter
