// Plans against the reference kernels: the default one, with whose values candidates are compared when they are tried
// and when they are raced, and the one that won, before it is accepted.
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
#include "tune/tuner/network_bench.h"

namespace kilter::tune {

/// What a layer ran.
struct LayerRan {
  std::string problem, layouts, node;
  Schedule schedule;
};

struct ReferenceCheck {
  int64_t values = 0;  ///< that were compared
  double worst = 0;    ///< largest difference that was allowed, of the largest magnitude of its value
  std::string wrong;   ///< the first value that differs by more, with its layer, in words; empty: all are right
  std::optional<LayerRan> layer = {};  ///< that one
};

/// Runs the plan once, in this process, and for the first layer of each task the reference kernels of its nodes on what
/// the layer read; those take all CPUs of this process. `compiled` has its graph (CompileOptions::keep_placed), and
/// `tasks` are of that graph. Tasks with random operators are left out.
ReferenceCheck check_against_reference(const Compiled& compiled, const std::vector<Tensor>& inputs,
                                       std::span<const NetworkTask> tasks, int threads);

/// The same of what a plan runs otherwise than the default plan: tasks with another schedule, and other tasks.
ReferenceCheck check_choices(NetworkBench& bench, const Choices& choices);

/// What `check`, such as check_choices(), says of a plan; where it cannot be made, why not is what is wrong, of no
/// layer.
ReferenceCheck checked(const std::function<ReferenceCheck(NetworkBench&, const Choices&)>& check, NetworkBench& bench,
                       const Choices& choices);

/// That a schedule which a layer ran is wrong, under these conditions: what bars it from then on.
Record wrong_record(const LayerRan& layer, const std::string& error, const Conditions& conditions,
                    const std::string& network);

/// For the default plan. Throws internal where a value is wrong: what is compared with it would be judged by it.
void require_right(const ReferenceCheck& check);

}  // namespace kilter::tune
