// Options that name tasks by number.
#include "tune/tuner/tasks/task_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../base/error_of.h"
#include "network.h"
#include "tune/tuner/tasks/task_list.h"

namespace kilter::tune {
namespace {

using testing::HasSubstr;

/// The first task of the small network with more than one layer.
TaskLine shared_task() {
  CompileOptions look = native();
  look.contents.code = false, look.contents.tasks = true;
  const Graph graph = small_network();
  for (const TaskLine& t : list_tasks(graph, compile_graph(graph, look), look, {"conv2d"}).tasks) {
    if (t.nodes.size() > 1) return t;
  }
  throw std::runtime_error("no task has two layers");
}

/// The schedule that a layer of the small network runs.
std::string schedule_of(const std::string& node, CompileOptions options) {
  options.contents.code = false;
  for (const Step& step : compile_graph(small_network(), options).plan.steps) {
    if (step.name == node) return step.schedule;
  }
  throw std::runtime_error("no layer " + node);
}

bool has_schedule(const CompileOptions& options, const std::string& node) {
  return forced_schedule(options.choices, node) != nullptr;
}
/// The number of layers with a schedule of the template `name`, or of any template if that is empty.
size_t schedules(const CompileOptions& options, std::string_view name = "") {
  return static_cast<size_t>(std::ranges::count_if(options.choices, [&](const auto& of) {
    return of.second.schedule && (name.empty() || of.second.schedule->name == name);
  }));
}

TEST(TaskNames, TaskOptionAppliesToEachOfItsLayers) {
  const TaskLine task = shared_task();
  const std::string name = "task:" + std::to_string(task.task);
  CompileOptions options = native();
  EXPECT_FALSE(names_several(options));
  options.choices[name].threads = 1, options.choices["conv1"].threads = 2;
  EXPECT_TRUE(names_several(options));
  options.choices[name].schedule = parse_schedule("reference");
  options.forbidden = {parse_forbidden("winograd@" + name), parse_forbidden("winograd@fire9.expand3x3")};
  name_layers(small_network(), options);
  EXPECT_FALSE(names_several(options));
  EXPECT_EQ(options.choices.size(), task.nodes.size() + 1);
  EXPECT_EQ(schedules(options), task.nodes.size());
  ASSERT_EQ(options.forbidden.size(), task.nodes.size() + 1);
  EXPECT_EQ(options.forbidden[0].text(), "conv2d_winograd@fire9.expand3x3");
  for (size_t i = 0; i < task.nodes.size(); ++i) {
    EXPECT_EQ(options.choices.at(task.nodes[i]).threads, 1);
    EXPECT_EQ(options.choices.at(task.nodes[i]).schedule->text(), "reference");
    EXPECT_EQ(options.forbidden[i + 1].text(), "conv2d_winograd@" + task.nodes[i]);
  }
}

TEST(TaskNames, LayerOptionOverridesTaskOption) {
  const TaskLine task = shared_task();
  CompileOptions options = native();
  options.choices["task:" + std::to_string(task.task)].threads = 1, options.choices[task.nodes[1]].threads = 2;
  name_layers(small_network(), options);
  EXPECT_EQ(options.choices.at(task.nodes[0]).threads, 1);
  EXPECT_EQ(options.choices.at(task.nodes[1]).threads, 2);
}

TEST(TaskNames, WildcardScheduleAppliesWhereLegal) {
  CompileOptions options = native();
  options.choices["*"].schedule = parse_schedule("conv2d_direct");
  options.choices["conv1"].schedule = parse_schedule("reference");
  options.choices["*"].threads = 1;
  options.forbidden = {parse_forbidden("conv2d_winograd@*")};
  EXPECT_TRUE(names_several(options));
  name_layers(small_network(), options);
  EXPECT_EQ(options.choices.at("conv1").schedule->text(), "reference") << "what names a layer goes before";
  EXPECT_FALSE(has_schedule(options, "pool1")) << "no convolution";
  EXPECT_EQ(schedules(options, "conv2d_direct"), 25U) << "SqueezeNet has 26 convolutions";
  EXPECT_EQ(options.choices.at("pool1").threads, 1);
  ASSERT_EQ(options.forbidden.size(), 1U);
  EXPECT_EQ(options.forbidden[0].text(), "conv2d_winograd");
  options.contents.code = false;
  int direct = 0;
  for (const Step& step : compile_graph(small_network(), options).plan.steps)
    direct += step.schedule.starts_with("conv2d_direct ") ? 1 : 0;
  EXPECT_EQ(direct, 25);
}

TEST(TaskNames, TaskOptionOverridesWildcard) {
  const TaskLine task = shared_task();
  CompileOptions options = native();
  options.choices["*"].schedule = parse_schedule("conv2d_direct");
  options.choices["task:" + std::to_string(task.task)].schedule = parse_schedule("reference");
  name_layers(small_network(), options);
  for (const std::string& node : task.nodes) EXPECT_EQ(options.choices.at(node).schedule->text(), "reference");
}

TEST(TaskNames, WildcardScheduleSkipsLayersThatForbidIt) {
  const CompileOptions plain = native();
  const std::string schedule = schedule_of("fire2.squeeze", plain);
  CompileOptions options = plain;
  options.choices["*"].schedule = parse_schedule(schedule);
  name_layers(small_network(), options);
  const size_t takers = schedules(options);
  ASSERT_TRUE(has_schedule(options, "fire2.squeeze"));
  options = plain;
  options.choices["*"].schedule = parse_schedule(schedule);
  options.forbidden = {parse_forbidden(schedule + "@fire2.squeeze")};
  name_layers(small_network(), options);
  EXPECT_EQ(schedules(options), takers - 1);
  EXPECT_FALSE(has_schedule(options, "fire2.squeeze"));
  EXPECT_NO_THROW(refuse_forbidden_schedules(options));
}

TEST(TaskNames, AScheduleThatIsForbiddenIsRefused) {
  CompileOptions options = native();
  options.choices["fire2.squeeze"].schedule = parse_schedule("conv2d_direct");
  options.forbidden = {parse_forbidden("winograd"), parse_forbidden("direct@fire3.squeeze")};
  EXPECT_NO_THROW(refuse_forbidden_schedules(options));
  options.forbidden.push_back(parse_forbidden("direct@fire2.squeeze"));
  EXPECT_EQ(error_of([&] { refuse_forbidden_schedules(options); }),
            "--schedule fire2.squeeze=conv2d_direct: --forbid conv2d_direct@fire2.squeeze excludes it from this layer; "
            "give only one of them");
}

TEST(TaskNames, ForbidOverridesScheduleFromAFile) {
  const TaskLine task = shared_task();
  CompileOptions options = native();
  const std::string in_file = task.nodes[0], by_hand = task.nodes[1];
  options.choices[in_file] = {parse_schedule("conv2d_direct"), {ScheduleSource::layer_plan, "net.plan line 3"}};
  options.choices[by_hand].schedule = parse_schedule("conv2d_direct");
  options.forbidden = {parse_forbidden("direct@task:" + std::to_string(task.task))};
  name_layers(small_network(), options);
  EXPECT_FALSE(has_schedule(options, in_file));
  EXPECT_THAT(error_of([&] { refuse_forbidden_schedules(options); }), testing::StartsWith("--schedule " + by_hand));
}

TEST(TaskNames, TemplateAvoidsForbiddenKnobs) {
  CompileOptions options = native();
  options.choices["fire2.squeeze"].schedule = parse_schedule("conv2d_direct");
  const std::string first = schedule_of("fire2.squeeze", options);
  options.forbidden = {parse_forbidden(first + "@fire2.squeeze")};
  const std::string second = schedule_of("fire2.squeeze", options);
  EXPECT_THAT(second, testing::StartsWith("conv2d_direct "));
  EXPECT_NE(second, first);
}

TEST(TaskNames, UnusedWildcardTemplateIsReported) {
  CompileOptions options = native();
  std::string told;
  options.report.notice = [&](const std::string& line) { told = line; };
  options.choices["*"].schedule = parse_schedule("recurrent_steps");
  name_layers(small_network(), options);
  EXPECT_TRUE(options.choices.empty());
  EXPECT_EQ(told, "--schedule *=recurrent_steps: this has no effect, since it applies to no layer of this network");
  options.choices["*"].schedule = parse_schedule("winogrand");
  EXPECT_THAT(error_of([&] { name_layers(small_network(), options); }),
              testing::StartsWith("--schedule *=winogrand: no template 'winogrand'; legal values are "));
}

TEST(TaskNames, UnknownTaskNumbersAreRefused) {
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
