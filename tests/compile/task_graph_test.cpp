// The task graph: its text and its rules, and the choosers that are called while it is built.
#include "compile/task_graph.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../base/error_of.h"
#include "compile/chooser.h"
#include "compile/compile.h"
#include "zoo/zoo.h"

namespace kilter {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Graph network() { return zoo::build("squeezenet1_1", {.size = 64, .classes = 10, .weights = false}); }

CompileOptions looking() {
  CompileOptions options;
  options.target = parse_target("x86-64-v3");
  options.contents = {.code = false, .tasks = true};
  return options;
}

std::string broken_rule(const TaskGraph& tasks) {
  return error_of([&] { verify(tasks); }, ErrorKind::internal);
}

TEST(TaskGraph, PrintsOneLinePerTask) {
  const Compiled compiled = compile_graph(network(), looking());
  const std::string text = print(*compiled.tasks);
  EXPECT_THAT(text, testing::StartsWith("tasks of \"squeezenet1_1\"\n0 kernel "));
  EXPECT_THAT(text, HasSubstr(" kernel \"fire2.squeeze\" Conv+Relu by conv2d_direct "));
  // A part of a concatenation is written directly to its place in the whole.
  EXPECT_THAT(text, testing::ContainsRegex(" kernel \"fire2.expand3x3\" .* at \"fire2.concat[^\"]*\"\\+[0-9]+\\)"));
  EXPECT_THAT(text, testing::ContainsRegex("[0-9]+ view \"fire2.concat[^\"]*\" Concat \\("));
}

TEST(TaskGraph, StepsRunTheSchedulesOfTheirTasks) {
  const Compiled compiled = compile_graph(network(), looking());
  std::map<std::string, std::string> run;
  for (const Step& step : compiled.plan.steps) {
    if (step.kind == StepKind::kernel) run[step.name] = step.schedule;
  }
  for (const TaskEntry& entry : compiled.tasks->tasks) {
    if (entry.kind != TaskEntry::kernel) continue;
    EXPECT_EQ(run.at(compiled.tasks->task(entry).node().name), entry.schedule.text());
  }
}

TEST(TaskGraph, TheVerifierNamesTheBrokenRule) {
  const TaskGraph whole = *compile_graph(network(), looking()).tasks;
  EXPECT_EQ(broken_rule(whole), "no error");
  TaskGraph broken = whole;
  broken.tasks.pop_back();
  EXPECT_THAT(broken_rule(broken), testing::EndsWith("is in no task"));
  broken = whole;
  broken.tasks.push_back(broken.tasks.front());
  EXPECT_THAT(broken_rule(broken), HasSubstr("and in an earlier one"));
  broken = whole;
  std::swap(broken.tasks.front(), broken.tasks.back());
  EXPECT_THAT(broken_rule(broken), HasSubstr("before it is computed"));
  broken = whole;
  broken.tasks.front().unit.nodes.clear();
  EXPECT_EQ(broken_rule(broken), "task 0 has no nodes");
  broken = whole;
  const ValueId out = broken.graph.node(broken.tasks.front().unit.nodes.back()).outputs.front();
  broken.storage.values[static_cast<size_t>(out)].offset_elems += 8;
  EXPECT_THAT(broken_rule(broken), HasSubstr("occupies elements 8 to "));
  broken = whole;
  const auto view = std::ranges::find(broken.tasks, TaskEntry::view, &TaskEntry::kind);
  view->schedule.name = "map_elementwise";
  EXPECT_THAT(broken_rule(broken), HasSubstr("is a view with schedule 'map_elementwise'"));
}

TEST(TaskGraph, RepeatedStagesAreCounted) {
  const auto small_resnet = [] { return zoo::build("resnet18", {.size = 128, .classes = 10}); };
  CompileOptions options = looking();
  const auto rounds = [&] {
    int64_t all = 0;
    for (const PassTiming& t : compile_graph(small_resnet(), options).timings) {
      if (t.name == "fit_memory") all = t.rewrites;
    }
    return all;
  };
  EXPECT_EQ(rounds(), 0);
  const Compiled compiled = compile_graph(small_resnet(), options);
  options.budget.memory = (compiled.weight_bytes + compiled.plan.arena_bytes) * 9 / 10;
  EXPECT_GT(rounds(), 0);
}

/// Makes two offers: `plan`, and `settled`, which is chosen only after the graph was compiled.
class Offers : public Chooser {
 public:
  Choices plan, settled;
  mutable std::vector<std::string> told;
  mutable int asked = 0;

  std::vector<Offer> offers(const Graph& /*graph*/, const CompileOptions& /*options*/) const override {
    Offer accepted{plan};
    accepted.refused = [this](const Error& why) { told.push_back(why.message()); };
    Offer records;
    records.settle = [this](const Compiled& compiled, const CompileOptions& /*options*/) {
      ++asked;
      EXPECT_FALSE(compiled.plan.steps.empty());
      EXPECT_FALSE(compiled.tasks->tasks.empty());
      EXPECT_EQ(compiled.plan.code_bytes, 0);
      return Recorded{settled, "the summary"};
    };
    return {accepted, records};
  }
};

std::string schedule_of(const Compiled& compiled, const std::string& node) {
  for (const Step& step : compiled.plan.steps) {
    if (step.name == node && step.role != StepRole::pack) return step.schedule;
  }
  return "no step";
}

const std::string kSmall = "conv2d_direct vectors=1 rows=1 tile=2 prefetch=0";

TEST(Chooser, FirstOfferThatCompilesIsUsed) {
  Offers chooser;
  chooser.plan["fire2.squeeze"] = preferred(parse_schedule(kSmall));
  const Compiled compiled = compile_graph(network(), looking(), &chooser);
  EXPECT_EQ(schedule_of(compiled, "fire2.squeeze"), kSmall);
  EXPECT_EQ(compiled.choices, chooser.plan);
  EXPECT_EQ(chooser.asked, 0);
  EXPECT_TRUE(chooser.told.empty());
}

TEST(Chooser, FailedOfferIsReportedAndTheNextUsed) {
  Offers chooser;
  chooser.plan["no such layer"].threads = 1;
  chooser.settled["fire2.squeeze"] = {parse_schedule(kSmall), {ScheduleSource::record, "a record"}};
  const Compiled compiled = compile_graph(network(), looking(), &chooser);
  ASSERT_EQ(chooser.told.size(), 1U);
  EXPECT_THAT(chooser.told[0], testing::StartsWith("--layer-threads no such layer=1: no task has this name"));
  EXPECT_EQ(chooser.asked, 1);
  EXPECT_EQ(schedule_of(compiled, "fire2.squeeze"), kSmall);
  EXPECT_EQ(compiled.plan.records, "the summary");
}

TEST(Chooser, ForcedScheduleIsKept) {
  Offers chooser;
  chooser.plan["no such layer"].threads = 1;
  chooser.settled["fire2.squeeze"] = preferred(parse_schedule(kSmall));
  CompileOptions options = looking();
  const std::string forced = "conv2d_direct vectors=1 rows=1 tile=3 prefetch=0";
  options.choices["fire2.squeeze"].schedule = parse_schedule(forced);
  EXPECT_EQ(schedule_of(compile_graph(network(), options, &chooser), "fire2.squeeze"), forced);
}

TEST(Choices, AddKeepsExistingChoices) {
  Choices mine;
  mine["a"].threads = 2;
  mine["b"] = preferred(parse_schedule("map item=1024"));
  Choices more;
  more["a"].threads = 1, more["a"].plain = true;
  more["b"].schedule = parse_schedule("map item=2048");
  more["c"].fuse = Fusion::apart;
  add(more, mine);
  EXPECT_EQ(text(mine.at("a")), "threads=2 layout=plain");
  EXPECT_EQ(text(mine.at("b")), "map item=2048") << "a forced schedule replaces one of a record";
  EXPECT_EQ(text(mine.at("c")), "fuse=apart");
  take_back(mine, "a", &LayerChoice::threads);
  EXPECT_EQ(text(mine.at("a")), "layout=plain");
  take_back(mine, "a", &LayerChoice::plain);
  EXPECT_FALSE(mine.contains("a"));
  EXPECT_EQ(without_schedules(mine).size(), 1U);
}

}  // namespace
}  // namespace kilter
