// Creates the steps for tasks, without the places of their buffers, which emit_steps.cpp adds.
#pragma once

#include <string>
#include <vector>

#include "compile/compile.h"
#include "compile/stages/memory_plan.h"
#include "exec/plan.h"
#include "graph/graph.h"
#include "schedule/problem/task.h"
#include "schedule/schedule.h"
#include "target/target.h"

namespace kilter {

/// A buffer of the arena whose offset is not known yet.
struct ArenaBuffer {
  std::string name;
  Lifetime life;
};

/// The step that zeroes the halo of a value of this type; the caller adds its buffer.
Step halo_step(const std::string& value, const TensorType& type);

/// The step of stage `s`, without the parts that are specific to the task: name, arguments, and the user's limit on
/// threads. `instructions`: the extensions that code may use if `-mattr` names them, as part of the kernel key. Throws
/// bad_model for a constant index that is out of range. Constant folding may have made the index constant.
Step stage_step(const Task& task, const Chosen& chosen, size_t s, const Target& target,
                const std::string& instructions);

/// The step that runs a task's reference kernel; the caller adds its buffers.
Step reference_step(const Graph& graph, const Task& task);

/// Fills in the fields that describe a plan and do not depend on its code: model, target, inputs and outputs.
void describe(Plan& plan, const Graph& graph, const Target& target);

/// Assigns the buffers offsets in the arena, and replaces the buffer indices in steps and values by them.
void place_arena(const std::vector<ArenaBuffer>& buffers, Plan& plan, std::vector<PlacedValue>& values);

}  // namespace kilter
