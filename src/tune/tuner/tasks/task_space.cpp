#include "tune/tuner/tasks/task_space.h"

#include <set>

#include "base/error.h"
#include "schedule/problem/problem.h"

namespace kilter::tune {

TaskSpace::TaskSpace(const std::string& problem, const Target& target) {
  Problem parsed = parse_problem(problem);
  const std::set<std::string> fuse = parsed.fed ? std::set{parsed.anchor} : std::set<std::string>{};
  placed = place_tasks(std::move(parsed.graph), target.limits, fuse);
  for (const Task& task : placed.tasks) {
    if (task.problem() == problem) space = std::make_unique<Space>(task, target.limits);
  }
  if (space == nullptr) {
    fail(ErrorKind::bad_input,
         "problem '{}': no task of its network is written this way; write it as `kilter inspect` prints it", problem);
  }
}

}  // namespace kilter::tune
