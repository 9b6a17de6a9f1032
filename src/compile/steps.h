// The steps of a plan that tasks become, without what the plan builder alone knows: where their buffers lie.
#pragma once

#include <string>
#include <vector>

#include "compile/compile.h"
#include "compile/memory_plan.h"
#include "exec/plan.h"
#include "graph/graph.h"
#include "schedule/problem/task.h"
#include "schedule/schedule.h"
#include "target/target.h"

namespace kilter {

/// A buffer of the arena while its offset is not known yet.
struct ArenaBuffer {
  std::string name;
  Lifetime life;
};

/// The step that zeroes the halo of a value of this type, without its buffer.
Step halo_step(const std::string& value, const TensorType& type);

/// The step of stage `s` but for what is the task's own: name, arguments, threads that the user allows. `instructions`:
/// the extensions that code may use where `-mattr` says so, as part of the kernel key. Throws bad_model for a constant
/// index that is out of range: it may have become one by folding.
Step stage_step(const Task& task, const Chosen& chosen, size_t s, const Target& target,
                const std::string& instructions);

/// The step that runs a task's reference kernel, without its buffers.
Step reference_step(const Graph& graph, const Task& task);

/// Fills in what a plan says of itself: model, target, inputs and outputs.
void describe(Plan& plan, const Graph& graph, const Target& target);

/// Gives the buffers their places: offsets in the arena for what steps and values refer to by the buffer's index.
void place_arena(const std::vector<ArenaBuffer>& buffers, Plan& plan, std::vector<PlacedValue>& values);

}  // namespace kilter
