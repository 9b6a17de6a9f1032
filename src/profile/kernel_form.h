// One problem compiled on its own with one schedule, ready for replay. Kernels are measured individually in this form.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compile/session.h"
#include "measure/compare.h"
#include "profile/replay.h"
#include "schedule/problem/problem.h"

namespace kilter::profile {

struct KernelForm {
  Loaded loaded;
  std::vector<Tensor> tensors;  ///< the plan's inputs and outputs, which replays read and write
  size_t first = 0, count = 0;  ///< steps of the task
  std::string schedule;         ///< of the task

  const Plan& plan() const { return loaded.plan(); }
};

struct FormOptions {
  Target target;
  Accuracy accuracy = Accuracy::normal;
  std::optional<Schedule> schedule;  ///< instead of the default
};

/// Compiles the problem and runs it once. `line` is the text of the task, or of several adjacent tasks. Throws
/// bad_input if the passes do not produce such a task, saying what they produce, and usage if the schedule does not
/// apply.
KernelForm compile_form(const Problem& problem, const std::string& line, const FormOptions& options,
                        const std::shared_ptr<ThreadPool>& pool);

/// Creates a replayer for the task's steps; `touched_bytes` is as in ReplayOptions.
std::unique_ptr<Replayer> replayer(const KernelForm& form, Weights weights, int threads, int64_t touched_bytes);

/// Creates a candidate for compare(). `once` runs it once and returns the time in milliseconds; `warm` adds an untimed
/// run before each slice.
Candidate candidate(const std::string& name, std::function<double()> once, bool warm);
/// Creates a candidate from a replayer, to which it keeps a reference.
Candidate candidate(const std::string& name, Replayer& replayer, bool warm);

}  // namespace kilter::profile
