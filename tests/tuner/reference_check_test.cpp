// The check of plans against the reference kernels: the default plan is right as compiled, and faults are reported.
#include "tune/tuner/race/reference_check.h"

#include <gtest/gtest.h>

#include <limits>

#include "../base/error_of.h"
#include "compile/tasks.h"
#include "network.h"

namespace kilter::tune {
namespace {

struct Case {
  explicit Case(Graph graph) : Case(graph, inputs_of(graph)) {}
  Case(Graph graph, std::vector<Tensor> given) : inputs(std::move(given)) {
    CompileOptions how = native();
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
  ReferenceCheck check(int threads = 1) const { return check_against_reference(compiled, inputs, tasks(), threads); }

  std::vector<Tensor> inputs;
  Compiled compiled;
};

TEST(ReferenceCheck, EveryKernelOfTheDefaultPlanIsHeldAgainstItsReference) {
  const Case net(small_network());
  const ReferenceCheck check = net.check(2);
  EXPECT_EQ(check.wrong, "");
  EXPECT_GE(check.values, static_cast<int64_t>(net.tasks().size()));
  EXPECT_GT(check.values, 20);
  EXPECT_GT(check.worst, 0);
  EXPECT_LT(check.worst, 1e-4);
  require_right(check);
}

// The networks contain parts of concatenations, residual additions, pairs of convolutions in one task, and views.
TEST(ReferenceCheck, TasksOfEveryKindAreRight) {
  for (const std::string name : {"mobilenet_v2", "inception_v3"}) {
    const int64_t size = name == "inception_v3" ? 107 : 64;
    const ReferenceCheck check = Case(zoo::build(name, {.size = size, .classes = 10})).check();
    EXPECT_EQ(check.wrong, "") << name;
    EXPECT_LT(check.worst, 1e-4) << name;
  }
}

TEST(ReferenceCheck, AWrongLayerIsNamedWithWhatWasExpected) {
  Case net(small_network());
  net.change_weights_of("fire5.squeeze", 40);
  const ReferenceCheck check = net.check();
  EXPECT_NE(check.wrong.find("value 'fire5.squeeze.relu' of layer 'fire5.squeeze' (conv2d n1 "), std::string::npos)
      << check.wrong;
  EXPECT_NE(check.wrong.find("from the reference kernel's, whose largest magnitude is "), std::string::npos);
  EXPECT_NE(check.wrong.find("; expected at most 0.001 of that"), std::string::npos) << check.wrong;
  ASSERT_TRUE(check.layer);
  EXPECT_EQ(check.layer->node, "fire5.squeeze");
  EXPECT_EQ(check.layer->problem.substr(0, 10), "conv2d n1 ");
  EXPECT_NE(check.wrong.find(check.layer->problem + " | " + check.layer->schedule.text()), std::string::npos);
  const std::string text = error_of([&] { require_right(check); }, ErrorKind::internal);
  EXPECT_EQ(text.find("the default plan is wrong: value 'fire5.squeeze.relu'"), 0U) << text;
  EXPECT_NE(text.find("nothing is tuned. `--schedule LAYER=SCHEDULE` forces another schedule"), std::string::npos);
}

TEST(ReferenceCheck, NaNThatTheReferenceDoesNotHaveIsWrong) {
  Case net(small_network());
  net.change_weights_of("fire5.squeeze", std::numeric_limits<float>::quiet_NaN());
  EXPECT_NE(net.check().wrong.find("elements are NaN or infinite where the reference kernel's are not, or the reverse"),
            std::string::npos)
      << net.check().wrong;
}

/// Only the layers that differ from the default plan are checked.
TEST(ReferenceCheck, ChoicesAreHeldAgainstTheReferenceWhereTheyDiffer) {
  NetworkBench bench = bench_of(small_network());
  const auto values = [&](const Choices& choices) {
    const ReferenceCheck check = check_choices(bench, choices);
    EXPECT_EQ(check.wrong, "");
    EXPECT_FALSE(check.layer);
    EXPECT_LT(check.worst, 1e-4);
    return check.values;
  };
  EXPECT_EQ(values({}), 0);
  Choices choices;
  choices["conv1"].threads = 1;
  EXPECT_EQ(values(choices), 0) << "the same schedule";
  choices["pool3"].plain = true;
  EXPECT_GE(values(choices), 1);
  const auto direct = [](const NetworkTask& t) { return t.fallback.name == "conv2d_direct" && t.nodes.size() > 1; };
  const std::vector<NetworkTask> tasks = bench.tasks();
  const auto task = std::ranges::find_if(tasks, direct);
  ASSERT_NE(task, tasks.end());
  Schedule other = task->fallback;
  for (auto& [knob, value] : other.knobs) value = knob != "prefetch" ? value : value == 0 ? 1 : 0;
  EXPECT_EQ(values({{task->nodes[0], other}, {task->nodes[1], other}}), 1) << "one layer of a task";
}

}  // namespace
}  // namespace kilter::tune
