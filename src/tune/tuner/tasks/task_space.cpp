#include "tune/tuner/tasks/task_space.h"

#include "base/error.h"
#include "schedule/problem/problem.h"

namespace kilter::tune {

TaskSpace::TaskSpace(const std::string& problem, const Target& target) {
  placed = place_tasks(parse_problem(problem), target.limits);
  for (const Task& task : placed.tasks) {
    if (task.problem() == problem) space = std::make_unique<Space>(task, target.limits);
  }
  if (space == nullptr) {
    fail(ErrorKind::bad_input,
         "problem '{}': no task of its network is written this way; write it as `kilter inspect` prints it", problem);
  }
}

}  // namespace kilter::tune
