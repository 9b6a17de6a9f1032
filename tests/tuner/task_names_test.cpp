// Options that name tasks by their numbers.
#include "tune/tuner/task_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../base/error_of.h"
#include "network.h"
#include "tune/tuner/task_list.h"

namespace kilter::tune {
namespace {

using testing::HasSubstr;

/// Of the small network: the number of the first task with more than one layer.
TaskLine shared_task() {
  CompileOptions look = native();
  look.generate_code = false, look.keep_placed = true;
  const Graph graph = small_network();
  for (const TaskLine& t : list_tasks(graph, compile_graph(graph, look), look, {"conv2d"}).tasks) {
    if (t.nodes.size() > 1) return t;
  }
  throw std::runtime_error("no task has two layers");
}

TEST(TaskNames, AnOptionOfATaskIsOneOfEachOfItsLayers) {
  const TaskLine task = shared_task();
  const std::string name = "task:" + std::to_string(task.task);
  CompileOptions options = native();
  EXPECT_FALSE(names_tasks(options));
  options.layer_threads = {{name, 1}, {"conv1", 2}};
  EXPECT_TRUE(names_tasks(options));
  options.schedules[name] = parse_schedule("reference");
  options.forbidden = {parse_forbidden("winograd@" + name), parse_forbidden("winograd@fire9.expand3x3")};
  name_layers(small_network(), options);
  EXPECT_FALSE(names_tasks(options));
  EXPECT_EQ(options.layer_threads.size(), task.nodes.size() + 1);
  EXPECT_EQ(options.schedules.size(), task.nodes.size());
  ASSERT_EQ(options.forbidden.size(), task.nodes.size() + 1);
  EXPECT_EQ(options.forbidden[0].text(), "conv2d_winograd@fire9.expand3x3");
  for (size_t i = 0; i < task.nodes.size(); ++i) {
    EXPECT_EQ(options.layer_threads.at(task.nodes[i]), 1);
    EXPECT_EQ(options.schedules.at(task.nodes[i]).text(), "reference");
    EXPECT_EQ(options.forbidden[i + 1].text(), "conv2d_winograd@" + task.nodes[i]);
  }
}

TEST(TaskNames, WhatNamesALayerGoesBeforeWhatNamesItsTask) {
  const TaskLine task = shared_task();
  CompileOptions options = native();
  options.layer_threads = {{"task:" + std::to_string(task.task), 1}, {task.nodes[1], 2}};
  name_layers(small_network(), options);
  EXPECT_EQ(options.layer_threads.at(task.nodes[0]), 1);
  EXPECT_EQ(options.layer_threads.at(task.nodes[1]), 2);
}

TEST(TaskNames, NumbersThatTheNetworkDoesNotHaveAreRefused) {
  for (const std::string bad : {"task:0", "task:9999", "task:x", "task:"}) {
    CompileOptions options = native();
    options.forbidden = {parse_forbidden("winograd@" + bad)};
    EXPECT_THAT(error_of([&] { name_layers(small_network(), options); }),
                testing::MatchesRegex("--forbid conv2d_winograd@" + bad +
                                      ": expected a task from task:1 to task:[0-9]+, as `kilter tasks` numbers them, "
                                      "got '" +
                                      bad + "'"));
  }
}

}  // namespace
}  // namespace kilter::tune
