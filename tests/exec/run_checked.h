// Sets up an executor for a plan from a file that may be damaged, and runs every step that is not machine code. For
// tests of damaged files and for fuzzing.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "base/error.h"
#include "exec/executor.h"
#include "exec/plan_check.h"
#include "exec/plan_file.h"
#include "test_plans.h"

namespace kilter {

/// Returns whether the plan was accepted. Throws only if it has found a bug.
inline bool run_checked(Plan plan) {
  constexpr int64_t kMostBytes = 1 << 20;
  try {
    int64_t needed = std::max(plan.arena_bytes, plan.scratch_bytes);
    bool machine_code = false;
    for (const Step& step : plan.steps)
      machine_code = machine_code || (step.kind == StepKind::kernel && step.extent > 0);
    std::vector<Tensor> inputs;
    std::vector<Tensor> outputs;
    std::vector<const std::byte*> from;
    std::vector<std::byte*> to;
    for (const PlanTensor& t : plan.inputs) needed = std::max(needed, *tensor_bytes(t.type, t.shape));
    for (const PlanTensor& t : plan.outputs) needed = std::max(needed, *tensor_bytes(t.type, t.shape));
    const size_t tensors = plan.inputs.size() + plan.outputs.size();
    set_reference_maker(touch_maker);
    const auto program = std::make_shared<const Program>(std::move(plan));
    if (needed > kMostBytes || tensors > 16) return true;
    Instance instance(program, std::make_shared<ThreadPool>(1));
    if (machine_code) return true;
    for (const PlanTensor& t : program->plan().inputs) from.push_back(inputs.emplace_back(t.type, t.shape).raw());
    for (const PlanTensor& t : program->plan().outputs) to.push_back(outputs.emplace_back(t.type, t.shape).raw());
    instance.run(from, to);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Loads bytes as a compiled file without checking the hash of the meta section, and runs its plan like the
/// function above.
inline bool run_checked(std::span<const std::byte> bytes) {
  try {
    return run_checked(parse_plan(bytes, nullptr, "fuzz", {.verify = false, .check_meta_hash = false}));
  } catch (const Error&) {
    return false;
  }
}

}  // namespace kilter
