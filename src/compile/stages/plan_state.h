// The state of a plan under construction, and the stages that lead from the graph after the last pass to the plan. The
// table in compile/build_plan.cpp lists the stages in their order.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compile/chooser.h"
#include "compile/compile.h"
#include "compile/stages/kernel_set.h"
#include "compile/stages/memory_budget.h"
#include "compile/stages/steps.h"
#include "compile/stages/task_memo.h"
#include "compile/task_graph.h"
#include "exec/memory.h"

namespace kilter {

/// A constant that a step reads. Until constants are packed, the step's argument has its index in
/// PlanState::constants.
struct WantedConstant {
  std::shared_ptr<PackedTask> task;  ///< null: the constant `value` in the layout of its type
  size_t index = 0;                  ///< of Lowered::constants
  ValueId value = kNone;
  std::vector<int64_t> numbers = {};  ///< if not empty, the constant: what a shared kernel reads
};

/// The way in which a task is lowered.
struct Lowering {
  std::shared_ptr<LoweredForm> lowered = nullptr;  ///< shared by the tasks of one form; null for reference kernels
  TaskForm own = {};                               ///< the task's own values, if other tasks may share `lowered`
  std::vector<std::pair<std::string, Rejected>> rejected = {};  ///< reference kernels: why no template accepts the task
};

struct PlanState {
  PlanState(const Graph& graph, const CompileOptions& how, const Offer* from);

  const CompileOptions& options;
  const CpuLimits& limits;
  const Offer* offer;  ///< may be null

  Graph fused;                   ///< the graph after its groups are split; placing starts from it
  std::set<NodeId> reference;    ///< nodes that run their reference kernel
  std::set<NodeId> dense;        ///< the nodes in `reference`, and those whose templates accept only dense operands
  std::vector<Unfused> unfused;  ///< nodes of split groups
  Choices choices;               ///< of the options and of the records
  Recorded recorded;             ///< the schedules that the offer settled on
  bool settled = false;          ///< whether `recorded` is set
  bool names_checked = false;    ///< whether the names in the options are known to exist
  std::map<std::string, Schedule> slim;     ///< schedules with smaller weights, by anchor
  std::map<std::string, Holding> given_up;  ///< the schedules that these replace, by anchor
  int64_t wanted_bytes = 0;                 ///< of packed weights before any schedule was given up
  int64_t allowed_bytes = 0;                ///< the limit on packed weights when schedules were given up last

  // Rebuilt in each round of the stages from `place_values` on.
  TaskGraph tasks;
  std::vector<Lowering> lowerings;  ///< by task
  std::vector<ArenaBuffer> buffers;
  std::vector<WantedConstant> constants;
  int64_t weight_bytes = 0;  ///< of `constants`; equal ones count once
  KernelSet kernels;
  Compiled out;

  /// The data that Plan::owner keeps alive.
  struct Owned {
    MachineCode code;
    std::shared_ptr<const ConstantsHome> constants;
  };
  std::shared_ptr<Owned> owned = std::make_shared<Owned>();

  bool again = false;  ///< set by a stage that changed a choice: the stages from `place_values` on run again

  /// The kernels of earlier compilations; may be null.
  KernelStore* kernel_store() const;
  /// Limit in bytes on packed weights.
  int64_t weight_limit() const;
};

/// For a task that no template accepts, returns the name of each template and why it rejects the task, in the order of
/// the templates.
std::vector<std::pair<std::string, Rejected>> rejections(const Task& task, const CpuLimits& limits);

/// Reports the first task of a stage, and every 64th after it, to CompileReport::progress.
void tell_task(const CompileOptions& options, std::string_view stage, int64_t done, int64_t of);

// The stages, in their order.
void split_groups(PlanState& state);
void place_values(PlanState& state);
void choose_schedules(PlanState& state);
void emit_steps(PlanState& state);
void plan_memory(PlanState& state);
void fit_memory(PlanState& state);
void take_records(PlanState& state);
void share_kernels(PlanState& state);
void pack_constants(PlanState& state);
void generate_code(PlanState& state);

}  // namespace kilter
