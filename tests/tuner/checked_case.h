// A compiled network with what the check against the reference kernels needs.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compile/tasks.h"
#include "network.h"
#include "tune/tuner/race/reference_check.h"
#include "tune/tuner/step_values.h"

namespace kilter::tune {

struct CheckedCase {
  explicit CheckedCase(Graph graph) : CheckedCase(graph, inputs_of(graph)) {}
  CheckedCase(Graph graph, std::vector<Tensor> given, CompileOptions how = native()) : inputs(std::move(given)) {
    how.contents.tasks = true;
    compiled = compile_graph(std::move(graph), how);
  }
  /// Returns one task for each layer that runs a kernel.
  std::vector<NetworkTask> tasks() const {
    std::vector<NetworkTask> out;
    const TaskGraph& placed = *compiled.tasks;
    for (Task& task : tasks_of(placed.graph, placed.storage)) {
      const std::string node = task.node().name;
      for (const Step& step : compiled.plan.steps) {
        if (step.kind != StepKind::kernel || step.name != node || step.role == StepRole::pack) continue;
        out.push_back({std::move(task), step.problem, step.layouts, {node}, parse_schedule(step.schedule)});
        break;
      }
    }
    return out;
  }
  /// Changes the weights of a layer's first output channel for the reference kernels; the compiled kernels keep the old
  /// ones.
  void change_weights_of(const std::string& anchor, float by) {
    auto changed = std::make_shared<TaskGraph>(*compiled.tasks);
    for (const NodeId id : changed->graph.order()) {
      const Node& node = changed->graph.node(id);
      if (node.name != anchor) continue;
      Tensor weights = changed->graph.value(node.inputs[1]).constant->clone();
      for (float& w : weights.span<float>().first(static_cast<size_t>(weights.elems() / weights.shape()[0]))) w += by;
      changed->graph.change_value(node.inputs[1]).constant = weights;
    }
    compiled.tasks = changed;
  }
  ReferenceCheck check(Runner& runner) const {
    const Loaded loaded = runner.load(compiled.plan, step_values(compiled));
    return check_against_reference(runner, loaded.id.value(), compiled, inputs, tasks());
  }
  ReferenceCheck check(int threads = 1) const {
    RunnerOptions options = worker();
    options.inputs = inputs, options.threads = threads;
    LocalRunner runner(options);
    return check(runner);
  }

  std::vector<Tensor> inputs;
  Compiled compiled;
};

}  // namespace kilter::tune
