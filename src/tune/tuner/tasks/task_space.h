// The space of a task that is given by its problem line alone.
#pragma once

#include <memory>
#include <string>

#include "compile/placed_tasks.h"
#include "target/target.h"
#include "tune/space/space.h"

namespace kilter::tune {

/// The task of a problem line, placed as the network of this task alone has it, and its space on a target.
struct TaskSpace {
  /// Throws bad_input for a line that is no problem's, or of which no task is made.
  TaskSpace(const std::string& problem, const Target& target);

  PlacedTasks placed;
  std::unique_ptr<Space> space;  ///< never null; refers to `placed`
};

}  // namespace kilter::tune
