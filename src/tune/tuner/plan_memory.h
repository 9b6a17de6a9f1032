// The memory that plans need, and how a layer's schedule changes it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compile/compile.h"
#include "compile/stages/memory_plan.h"
#include "schedule/schedule.h"

namespace kilter::tune {

/// The bytes that a plan needs while it runs, without the caller's inputs and outputs.
struct PlanMemory {
  int64_t weights = 0;  ///< packed weights and other constants
  int64_t arena = 0;    ///< values between layers, and temporaries that live for several kernels
  int64_t scratch = 0;  ///< temporaries of single kernels, for all threads
  int64_t code = 0;     ///< machine code

  int64_t bytes() const { return weights + arena + scratch + code; }
};

PlanMemory plan_memory(const Compiled& compiled, int threads);
/// The bytes of a plan, over those of `base`.
double bytes_ratio(const PlanMemory& base, const PlanMemory& other);

/// Predicts the memory of a plan in which some layers run other schedules, without their machine code.
class LayerMemory {
 public:
  /// `compiled` must have its graph (CompileContents::tasks) and must outlive this object.
  LayerMemory(const Compiled& compiled, const CpuLimits& limits, int threads);

  /// Bytes that the plan needs in excess of its present ones if these layers, whose tasks are equal, run `schedule`. 0
  /// for layers that are not tasks, and for schedules that do not apply.
  int64_t more(const std::vector<std::string>& nodes, const Schedule& schedule) const;

 private:
  struct Needs {
    int64_t weights = 0, scratch = 0;
    std::vector<int64_t> temps;
  };
  struct Layer {
    Task task;
    Needs needs;                  ///< under the plan's schedule
    int64_t first = 0, last = 0;  ///< steps, both inclusive
  };
  /// Empty for a schedule that does not apply.
  std::optional<Needs> needs_of(const Task& task, const Schedule& schedule) const;
  int64_t arena_with(const std::vector<std::string>& nodes, const std::vector<int64_t>& temps) const;
  int64_t scratch_without(const std::vector<std::string>& nodes) const;

  const Plan& plan_;
  CpuLimits limits_;
  int64_t threads_;
  std::map<std::string, Layer> layers_;  ///< by anchor
};

}  // namespace kilter::tune
