// The default plan against the reference kernels. Candidates are compared with its values when they are tried and when
// they are raced, so these have to be right.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compile/compile.h"
#include "tune/tuner/task_state.h"

namespace kilter::tune {

struct DefaultCheck {
  int64_t values = 0;  ///< that were compared
  double worst = 0;    ///< largest difference that was allowed, of the largest magnitude of its value
  std::string wrong;   ///< the first value that differs by more, with its layer, in words; empty: all are right
};

/// Runs the plan once, in this process, and for the first layer of each task the reference kernels of its nodes on what
/// the layer read; those take all CPUs of this process. `compiled` has its graph (CompileOptions::keep_placed), and
/// `tasks` are of that graph. Tasks with random operators are left out.
DefaultCheck check_default(const Compiled& compiled, const std::vector<Tensor>& inputs,
                           std::span<const NetworkTask> tasks, int threads);

/// Throws internal where a value is wrong: what is compared with it would be judged by it.
void require_right(const DefaultCheck& check);

}  // namespace kilter::tune
