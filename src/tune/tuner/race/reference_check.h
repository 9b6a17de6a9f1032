// Checks plans against the reference kernels: the default plan, with whose values all candidates are compared in trials
// and races, and the winning plan before it is accepted.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compile/compile.h"
#include "measure/conditions.h"
#include "tune/records/record.h"
#include "tune/run/runner.h"
#include "tune/tuner/network_bench.h"

namespace kilter::tune {

/// The schedule that a layer ran.
struct LayerRan {
  std::string problem, layouts, node;
  Schedule schedule;
};

struct ReferenceCheck {
  int64_t values = 0;  ///< number of values compared
  double worst = 0;    ///< largest difference found within the tolerance, relative to its value's largest magnitude
  std::string wrong;   ///< the first value that differs too much and its layer, in words; empty: all are correct
  std::optional<LayerRan> layer = {};  ///< the layer of that first value
};

/// Lets the runner run a variant that it has loaded, once or, for large networks, several times. For the first layer of
/// each task, runs the reference kernels of its nodes on the values that the layer read, in this process, on all its
/// CPUs. `compiled`: the variant's plan, which need not run on this machine, with its graph (CompileContents::tasks).
/// `inputs`: those of the runner. `tasks` must refer to that graph. Tasks with random operators are left out. Throws
/// unsupported if the run fails.
ReferenceCheck check_against_reference(Runner& runner, VariantId id, const Compiled& compiled,
                                       const std::vector<Tensor>& inputs, std::span<const NetworkTask> tasks);

/// Checks the default plan.
ReferenceCheck check_default(NetworkBench& bench);

/// Checks the parts of a plan that differ from the default plan: tasks with a different schedule, and tasks that the
/// default plan does not have. Throws what NetworkBench::build() throws, and unsupported if the plan does not run.
ReferenceCheck check_choices(NetworkBench& bench, const Choices& choices);

/// Returns the result of `check`, such as check_choices(), for a plan. If the plan cannot be checked, `wrong` is the
/// reason and `layer` is empty.
ReferenceCheck checked(const std::function<ReferenceCheck(NetworkBench&, const Choices&)>& check, NetworkBench& bench,
                       const Choices& choices);

/// Creates the record that bars the schedule that a layer ran, because its result is wrong under these conditions. The
/// record's version of the code is that of the schedule.
Record wrong_record(const LayerRan& layer, const std::string& error, const Conditions& conditions,
                    const KernelVersions& versions, const std::string& network);

/// Checks the result for the default plan. Throws internal if a value is wrong, since all others are compared with it.
void require_right(const ReferenceCheck& check);

}  // namespace kilter::tune
