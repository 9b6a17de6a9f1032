// Names in compile options that nothing in the network or in the table of passes has.
#pragma once

#include "compile/compile.h"
#include "graph/graph.h"

namespace kilter {

/// --stop-after and --disable name passes. Throws usage, listing the legal names.
void check_pass_names(const CompileOptions& options);
/// Options that name tasks by their anchors, or nodes, of the graph as it is lowered: after the last pass, with what
/// placing it in memory added. Throws usage, listing the legal names.
void check_node_names(const Graph& graph, const CompileOptions& options);
/// Throws usage for what is forbidden of a node whose template, or schedule, does not take it anyway; tells
/// CompileOptions::notice what is forbidden everywhere and taken nowhere.
void check_forbidden(const PassedGraph& passed, const CompileOptions& options);

/// What an error says first of an option of a node: "--schedule conv1=reference", without a value "--schedule conv1";
/// of one that a file gives "net.plan line 3, 'conv1'".
std::string option_text(const CompileOptions& options, std::string_view option, const std::string& node,
                        std::string_view value = {});

}  // namespace kilter
