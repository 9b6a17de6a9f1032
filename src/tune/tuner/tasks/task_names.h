// Options that name a task of a network, "task:3", or every layer, "*", in place of a node.
#pragma once

#include "compile/compile.h"

namespace kilter::tune {

/// Whether schedules, numbers of threads, or what is forbidden go by a task or by every layer.
bool names_several(const CompileOptions& options);
/// Makes of each such option one for every layer that is meant: of a task all, and of a schedule for every layer those
/// whose task takes it as it is fused without these options and of which it is not forbidden. What names a layer itself
/// goes before what names its task, and that before what names all. Tasks are numbered_tasks() for these options
/// without the ones that are replaced, and without records. Throws usage, naming the option, for a number that the
/// network does not have and for a template that does not exist; tells `options.notice` of a schedule that no layer
/// takes. A schedule that a file gives gives way to what is forbidden so.
void name_layers(const Graph& graph, CompileOptions& options);
/// Throws usage for a layer whose schedule, which the command line gives, is forbidden.
void refuse_forbidden_schedules(const CompileOptions& options);

}  // namespace kilter::tune
