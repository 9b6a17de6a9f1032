// One problem compiled alone with one schedule, ready to be replayed: what measuring kernels one by one is made of.
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
  std::vector<Tensor> tensors;  ///< of the plan's inputs and outputs; replays work on them
  size_t first = 0, count = 0;  ///< steps of the task
  std::string schedule;         ///< of the task

  const Plan& plan() const { return loaded.plan(); }
};

struct FormOptions {
  Target target;
  Accuracy accuracy = Accuracy::normal;
  std::optional<Schedule> schedule;  ///< instead of the default
};

/// Compiles the problem and runs it once. `line` is the text of the task, or of several one after another. Throws
/// bad_input where the passes make none such, saying what they make, and usage where the schedule does not apply.
KernelForm compile_form(const Problem& problem, const std::string& line, const FormOptions& options,
                        const std::shared_ptr<ThreadPool>& pool);

/// Replays the task's steps; `touched_bytes` as in ReplayOptions.
std::unique_ptr<Replayer> replayer(const KernelForm& form, Weights weights, int threads, int64_t touched_bytes);

/// As one of compare()'s, whose runs `once` times itself, in milliseconds; `warm` runs once untimed before each slice.
Candidate candidate(const std::string& name, std::function<double()> once, bool warm);
/// The runs of a replayer, to which it keeps a reference.
Candidate candidate(const std::string& name, Replayer& replayer, bool warm);

}  // namespace kilter::profile
