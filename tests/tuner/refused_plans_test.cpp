// Plans that win the race of a tuning run but are not accepted, because they do not match the reference kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "short_run.h"
#include "tune/tuner/tune_json.h"

namespace kilter::tune {
namespace {

TEST(Tuner, WrongPlanIsNotAccepted) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.seconds = 60, options.trials = 100, options.graph_best = true;
  std::optional<LayerRan> blamed;
  int asked = 0;
  options.check = [&](NetworkBench& bench, const Choices& choices) {
    ++asked;
    const ReferenceCheck right = check_choices(bench, choices);
    EXPECT_EQ(right.wrong, "");
    EXPECT_GT(right.values, 0);
    ReferenceCheck wrong;
    const auto& [node, choice] = *choices.begin();
    blamed = {"a problem", "its layouts", node, *choice.schedule};
    wrong.wrong = "value 'x' differs", wrong.layer = blamed;
    return wrong;
  };
  const Graph graph = small_network();
  const TuneResult result = tune(graph, inputs_of(graph), slow_default(), options);
  ASSERT_EQ(asked, 1);
  EXPECT_EQ(result.refused, "it is wrong: value 'x' differs");
  ASSERT_TRUE(result.rejected.has_value()) << "the plan that was found is reported";
  EXPECT_LT(result.rejected->ratio.high, 1);
  EXPECT_GT(result.rejected->layers, 0);
  EXPECT_EQ(result.flips, 1);
  EXPECT_TRUE(result.choices.empty());
  EXPECT_TRUE(result.history.empty());
  EXPECT_TRUE(result.same_plan);
  EXPECT_EQ(result.ratio.value, 1);
  EXPECT_EQ(result.graph_left_out, "the plan that won the race is not accepted");
  for (const TunedTask& task : result.tasks) EXPECT_EQ(task.schedule, task.fallback);
  ASSERT_FALSE(kept.empty());
  EXPECT_EQ(kept.back().status, Status::wrong);
  EXPECT_EQ(kept.back().error, "value 'x' differs");
  EXPECT_EQ(kept.back().problem, blamed->problem);
  EXPECT_EQ(kept.back().layouts, blamed->layouts);
  EXPECT_EQ(kept.back().schedule, blamed->schedule.text());
  EXPECT_EQ(kept.back().node, blamed->node);
  EXPECT_EQ(nlohmann::json(to_json(result)).at("refused"), result.refused);
}

TEST(Tuner, UncheckablePlanIsNotAcceptedButTheRunSucceeds) {
  std::vector<Record> kept;
  TuneOptions options = short_run(kept);
  options.seconds = 60, options.trials = 100;
  options.check = [](NetworkBench&, const Choices&) -> ReferenceCheck {
    throw Error(ErrorKind::io, "no memory for an arena");
  };
  const Graph graph = small_network();
  const TuneResult result = tune(graph, inputs_of(graph), slow_default(), options);
  EXPECT_EQ(result.refused, "it could not be checked against the reference kernels: no memory for an arena");
  EXPECT_TRUE(result.choices.empty());
  EXPECT_TRUE(result.rejected.has_value());
  EXPECT_GT(kept.size(), 20U);
  EXPECT_TRUE(std::ranges::none_of(kept, [](const Record& r) { return r.status == Status::wrong; }))
      << "nothing is barred";
}

}  // namespace
}  // namespace kilter::tune
