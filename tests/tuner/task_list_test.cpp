#include "tune/tuner/tasks/task_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "network.h"

namespace kilter::tune {
namespace {

using testing::HasSubstr;

TaskList listed(const std::string& network, const std::vector<std::string>& kinds = {}) {
  const Graph graph = zoo::build(network, {.size = network == "inception_v3" ? 128 : 64, .classes = 10});
  CompileOptions options = native();
  options.contents.code = false;
  options.contents.tasks = true;
  return list_tasks(graph, compile_graph(graph, options), options, kinds);
}

TEST(TaskList, CountsDistinctConvolutionsWithAndWithoutEpilogues) {
  const TaskList r18 = listed("resnet18", {"conv2d"});
  EXPECT_EQ(r18.anchors, 11) << "distinct convolutions of ResNet-18";
  EXPECT_GT(static_cast<int64_t>(r18.tasks.size()), r18.anchors);
  EXPECT_EQ(listed("resnet50", {"conv2d"}).anchors, 23);
}

TEST(TaskList, EveryNodeHasALine) {
  const Graph graph = zoo::build("inception_v3", {.size = 128, .classes = 10});
  const TaskList list = listed("inception_v3");
  std::map<std::string, NodeLine> lines;
  for (const NodeLine& n : list.nodes) {
    EXPECT_FALSE(n.becomes.empty()) << n.node;
    EXPECT_TRUE(lines.emplace(n.node, n).second) << n.node << " has two lines";
  }
  int tasks = 0, fused = 0, views = 0;
  for (const NodeId id : graph.order()) {
    ASSERT_TRUE(lines.contains(graph.node(id).name)) << graph.node(id).name;
    const NodeLine& n = lines.at(graph.node(id).name);
    tasks += n.becomes.starts_with("task ") ? 1 : 0;
    fused += n.becomes.starts_with("fused into task ") ? 1 : 0;
    views += n.becomes == "free view" ? 1 : 0;
    EXPECT_LE(n.task, static_cast<int64_t>(list.tasks.size()));
  }
  EXPECT_GT(tasks, 90);
  EXPECT_GT(fused, 90) << "each convolution has its activation";
  EXPECT_GT(views, 5) << "concatenations in place";
}

// Records change the schedules of tasks, but not their numbers.
TEST(TaskList, NumbersDoNotDependOnRecords) {
  const Graph graph = small_network();
  CompileOptions options = native();
  options.contents.code = false, options.contents.tasks = true;
  const Compiled plain = compile_graph(graph, options);
  const TaskList before = list_tasks(graph, plain, options);
  const NumberedTasks numbers = numbered_tasks(plain, {});
  const TaskLine& shared = *std::ranges::find_if(before.tasks, [](const TaskLine& t) { return t.nodes.size() > 1; });
  CompileOptions chosen = options;
  chosen.choices[shared.nodes.front()].schedule = parse_schedule("reference");
  chosen.choices[shared.nodes.back()].schedule = parse_schedule("conv2d_direct vectors=1 rows=1 tile=1 prefetch=0");
  chosen.choices["conv1"].fuse = Fusion::none;
  const TaskList now = list_tasks(graph, compile_graph(graph, chosen), chosen, {}, numbers);
  for (const TaskLine& t : now.tasks) {
    if (t.task == 0) continue;
    const TaskLine& same = *std::ranges::find(before.tasks, t.task, &TaskLine::task);
    for (const std::string& node : t.nodes) EXPECT_THAT(same.nodes, testing::Contains(node));
  }
  const auto line = std::ranges::find_if(
      now.tasks, [&](const TaskLine& t) { return std::ranges::count(t.nodes, shared.nodes.back()) > 0; });
  ASSERT_NE(line, now.tasks.end());
  EXPECT_EQ(line->task, shared.task);
  EXPECT_EQ(line->schedule, "conv2d_direct vectors=1 rows=1 tile=1 prefetch=0");
  const auto relu = std::ranges::find(now.nodes, "conv1.relu", &NodeLine::node);
  ASSERT_NE(relu, now.nodes.end());
  EXPECT_EQ(relu->task, 0) << "it runs apart, which it does not without records";
  EXPECT_EQ(relu->becomes, "a task without a number");
}

TEST(TaskList, ListsSpacesAndModelEstimates) {
  const TaskList list = listed("squeezenet1_1", {"conv2d"});
  ASSERT_FALSE(list.tasks.empty());
  for (const TaskLine& t : list.tasks) {
    EXPECT_TRUE(t.problem.starts_with("conv2d ")) << t.problem;
    EXPECT_GT(t.points, 10U);
    EXPECT_GT(t.worth, 0);
    EXPECT_GT(t.cycles, 0);
    EXPECT_LE(t.best_cycles, t.cycles);
    EXPECT_THAT(t.space, HasSubstr("points"));
  }
  double share = 0;
  for (const TaskLine& t : list.tasks) share += t.share;
  EXPECT_NEAR(share, 1, 1e-9);
}

}  // namespace
}  // namespace kilter::tune
