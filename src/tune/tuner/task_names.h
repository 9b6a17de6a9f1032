// Options that name a task of a network, "task:3", in place of a node.
#pragma once

#include "compile/compile.h"

namespace kilter::tune {

/// Whether schedules, numbers of threads, or what is forbidden go by a task.
bool names_tasks(const CompileOptions& options);
/// Makes of each such option one for every layer of the task; what names a layer itself stays. The numbers are those of
/// list_tasks() for these options without the ones that name tasks, and without records. Throws usage, naming the
/// option, for a number that the network does not have.
void name_layers(const Graph& graph, CompileOptions& options);

}  // namespace kilter::tune
