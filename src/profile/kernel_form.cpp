#include "profile/kernel_form.h"

#include <fmt/ranges.h>

#include "compile/compile.h"
#include "compile/index_limit.h"
#include "compile/placed_tasks.h"

namespace kilter::profile {
namespace {

/// Finds the steps of the task that the problem describes.
void find_steps(KernelForm& form, const std::string& problem) {
  const std::vector<Step>& steps = form.plan().steps;
  std::vector<std::string> others;
  size_t before = 0;  ///< size of `others` when the task's last step was found
  for (size_t s = 0; s < steps.size(); ++s) {
    if (steps[s].kind == StepKind::halo) continue;
    if (steps[s].problem != problem) {
      if (!steps[s].problem.empty()) others.push_back(steps[s].problem);
      continue;
    }
    if (form.count > 0 && others.size() > before) {
      fail(ErrorKind::bad_input, "problem '{}': expected its tasks one after another, got '{}' between two of them",
           problem, others.back());
    }
    if (form.count == 0) form.first = s;
    form.count = s - form.first + 1;
    before = others.size();
  }
  if (form.count == 0) {
    fail(ErrorKind::bad_input,
         "problem '{}': expected one task with this text, got '{}'; write it as `kilter inspect` prints it", problem,
         fmt::join(others, "', '"));
  }
  form.schedule = steps[form.first].schedule;
}

}  // namespace

KernelForm compile_form(const Problem& problem, const std::string& line, const FormOptions& options,
                        const std::shared_ptr<ThreadPool>& pool) {
  CompileOptions how;
  how.target = options.target;
  how.accuracy = options.accuracy;
  apply(problem, how);
  if (options.schedule) how.choices[problem.anchor].schedule = *options.schedule;
  KernelForm form;
  Compiled compiled = compile_graph(problem.graph, how);
  form.loaded.program = std::make_shared<const Program>(std::move(compiled.plan));
  form.loaded.instance = std::make_unique<Instance>(form.loaded.program, pool);
  find_steps(form, line);
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  for (size_t i = 0; i < form.plan().inputs.size(); ++i) {
    const PlanTensor& t = form.plan().inputs[i];
    const int64_t most = std::min<int64_t>(index_limit(form.plan(), static_cast<int32_t>(i)).value_or(100), 100) - 1;
    from.push_back(form.tensors.emplace_back(random_input(t.name, t.type, t.shape, 0, most)).raw());
  }
  for (const PlanTensor& t : form.plan().outputs) to.push_back(form.tensors.emplace_back(t.type, t.shape).raw());
  form.loaded.instance->run(from, to);
  return form;
}

std::unique_ptr<Replayer> replayer(const KernelForm& form, Weights weights, int threads, int64_t touched_bytes) {
  ReplayOptions how;
  how.weights = weights;
  how.steps = form.count;
  how.touched_bytes = touched_bytes;
  return std::make_unique<Replayer>(*form.loaded.instance, form.plan(), threads, form.first, how);
}

Candidate candidate(const std::string& name, std::function<double()> once, bool warm) {
  return {name, {}, {}, [once = std::move(once), warm](int64_t calls) {
            if (warm) once();  // other runs have evicted its data from the caches
            double ms = 0;
            for (int64_t i = 0; i < calls; ++i) ms += once();
            return ms / static_cast<double>(calls);
          }};
}

Candidate candidate(const std::string& name, Replayer& replayer, bool warm) {
  return candidate(name, [&replayer] { return replayer.run(); }, warm);
}

}  // namespace kilter::profile
