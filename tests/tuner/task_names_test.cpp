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
  EXPECT_FALSE(names_several(options));
  options.layer_threads = {{name, 1}, {"conv1", 2}};
  EXPECT_TRUE(names_several(options));
  options.schedules[name] = parse_schedule("reference");
  options.forbidden = {parse_forbidden("winograd@" + name), parse_forbidden("winograd@fire9.expand3x3")};
  name_layers(small_network(), options);
  EXPECT_FALSE(names_several(options));
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

TEST(TaskNames, AScheduleForEveryLayerIsForThoseThatTakeIt) {
  CompileOptions options = native();
  options.schedules["*"] = parse_schedule("conv2d_direct");
  options.schedules["conv1"] = parse_schedule("reference");
  options.layer_threads["*"] = 1;
  options.forbidden = {parse_forbidden("conv2d_winograd@*")};
  EXPECT_TRUE(names_several(options));
  name_layers(small_network(), options);
  EXPECT_EQ(options.schedules.at("conv1").text(), "reference") << "what names a layer goes before";
  EXPECT_FALSE(options.schedules.contains("pool1")) << "no convolution";
  EXPECT_EQ(std::ranges::count_if(options.schedules, [](const auto& s) { return s.second.name == "conv2d_direct"; }),
            25)
      << "SqueezeNet has 26 convolutions";
  EXPECT_TRUE(options.layer_threads.contains("pool1"));
  ASSERT_EQ(options.forbidden.size(), 1U);
  EXPECT_EQ(options.forbidden[0].text(), "conv2d_winograd");
  options.generate_code = false;
  int direct = 0;
  for (const Step& step : compile_graph(small_network(), options).plan.steps)
    direct += step.schedule.starts_with("conv2d_direct ") ? 1 : 0;
  EXPECT_EQ(direct, 25);
}

TEST(TaskNames, ATaskGoesBeforeEveryLayer) {
  const TaskLine task = shared_task();
  CompileOptions options = native();
  options.schedules["*"] = parse_schedule("conv2d_direct");
  options.schedules["task:" + std::to_string(task.task)] = parse_schedule("reference");
  name_layers(small_network(), options);
  for (const std::string& node : task.nodes) EXPECT_EQ(options.schedules.at(node).text(), "reference");
}

TEST(TaskNames, ATemplateForEveryLayerThatNoneTakesIsTold) {
  CompileOptions options = native();
  std::string told;
  options.notice = [&](const std::string& line) { told = line; };
  options.schedules["*"] = parse_schedule("recurrent_steps");
  name_layers(small_network(), options);
  EXPECT_TRUE(options.schedules.empty());
  EXPECT_EQ(told, "--schedule *=recurrent_steps: no layer of this network would take it, so it changes nothing");
  options.schedules["*"] = parse_schedule("winogrand");
  EXPECT_THAT(error_of([&] { name_layers(small_network(), options); }),
              testing::StartsWith("--schedule *=winogrand: no template 'winogrand'; legal are "));
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
