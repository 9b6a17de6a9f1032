// The space of a task that is given only by its problem line.
#pragma once

#include <memory>
#include <string>

#include "compile/placed_tasks.h"
#include "target/target.h"
#include "tune/space/space.h"

namespace kilter::tune {

/// The task of a problem line, placed in memory as if it were the only task of its network, and its space on a target.
struct TaskSpace {
  /// Throws bad_input for a line that is not a problem, or that yields no task.
  TaskSpace(const std::string& problem, const Target& target);

  PlacedTasks placed;
  std::unique_ptr<Space> space;  ///< never null; refers to `placed`
};

}  // namespace kilter::tune
