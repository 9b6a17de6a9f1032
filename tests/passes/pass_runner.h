// Runs one pass on one graph; shared by the tests of this folder.
#pragma once

#include <string>
#include <string_view>

#include "ops/support/cases.h"
#include "passes/pass.h"

namespace kilter {

/// Runs a pass with the limits of a target, in blocks of as many channels as its vectors have floats, and with
/// precision bf16. Returns the number of rewrites.
int64_t run_pass(PassFunction pass, Graph& graph, std::string_view target = "x86-64-v3", int64_t most = INT64_MAX);

/// Nodes and outputs of a graph in text form, without constants.
std::string nodes_text(const Graph& graph);

/// Nodes and outputs of a graph given as text, after a pass has run over it. Verifies the graph before and after, and
/// checks that a second run of the pass makes no rewrite.
std::string after(PassFunction pass, std::string_view graph, std::string_view target = "x86-64-v3");

/// A graph in text form with one part replaced. Fails the test if the graph does not contain that part.
std::string with(std::string text, std::string_view from, std::string_view to);

/// Returns "" if a pass leaves a graph given as text unchanged and counts no rewrite, otherwise the changed graph.
std::string unchanged(PassFunction pass, std::string_view graph, std::string_view target = "x86-64-v3");

}  // namespace kilter
