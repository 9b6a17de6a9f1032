// Checks of compile options against the network and the table of passes.
#pragma once

#include "compile/compile.h"
#include "graph/graph.h"

namespace kilter {

/// Returns whether a processor has the instructions that a precision needs.
bool has_instructions(const CpuLimits& limits, Precision precision);
/// Throws usage if the target lacks the instructions of the precision, or if a name of CompileOptions::keep_float is
/// neither a node's nor an operator's.
void check_precision(const Graph& graph, const CompileOptions& options);
/// Checks the passes named by --stop-after and --disable. Throws usage, listing the legal names.
void check_pass_names(const CompileOptions& options);
/// Checks options that name nodes, or tasks by their anchors, against the graph as it is lowered: after the last pass,
/// including nodes added by memory placement. Throws usage, listing the legal names.
void check_node_names(const Graph& graph, const CompileOptions& options);
/// Throws usage if an entry of CompileOptions::forbidden names a node and forbids a template or schedule that the node
/// would not use anyway. If an entry names no node and forbids a schedule that no task would use anyway, passes a line
/// to CompileReport::notice instead.
void check_forbidden(const PassedGraph& passed, const CompileOptions& options);

/// Returns whether the options let a task, named by its anchor, use a schedule that is not forced.
bool permits(const CompileOptions& options, const std::string& node, const Schedule& schedule);

/// The first option that makes this choice for a node: "--schedule".
std::string_view option_of(const LayerChoice& choice);
/// The start of an error about an option of a node: "--schedule conv1=reference", or "--schedule conv1" without a
/// value. For an option that comes from a file: "net.plan line 3, 'conv1'".
std::string option_text(const CompileOptions& options, std::string_view option, const std::string& node,
                        std::string_view value = {});

}  // namespace kilter
