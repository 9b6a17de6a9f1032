// Options that name a task of a network ("task:3") or every layer ("*") instead of a node.
#pragma once

#include "compile/compile.h"

namespace kilter::tune {

/// Returns whether a schedule, a number of threads or a ban is given for a task or for every layer.
bool names_several(const CompileOptions& options);
/// Expands each such option into one option per layer. A task stands for all its layers. A schedule for every layer
/// applies to each layer for which it is not forbidden and whose task, as fused without these options, accepts it.
/// Options for a layer take precedence over those for its task, and these over those for all layers. Tasks are those of
/// numbered_tasks() under the remaining options, without records. Throws usage, naming the option, for a number that
/// the network does not have and for a template that does not exist. Passes a line to the options'
/// CompileReport::notice for a schedule that no layer accepts. Bans given in this way override schedules from a file.
void name_layers(const Graph& graph, CompileOptions& options);
/// Throws usage if the command line gives a layer a schedule that is forbidden for it.
void refuse_forbidden_schedules(const CompileOptions& options);

}  // namespace kilter::tune
