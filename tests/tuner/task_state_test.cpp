// One task during tuning: which candidates are raced next, which results count as gains, and which candidate wins.
#include "tune/tuner/search/task_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "network.h"
#include "tune/tuner/network_bench.h"
#include "tune/tuner/race/final_race.h"

namespace kilter::tune {
namespace {

constexpr double kNoise = 0.03;

class OneTask : public testing::Test {
 protected:
  OneTask() : graph_(small_network()), bench_(graph_, native(), runner()) {
    options_.limits = native().target.limits;
    for (const NetworkTask& t : bench_.tasks()) {
      if (t.fallback.name == "conv2d_direct") task_ = t;
    }
    state_ = std::make_unique<TaskState>(*task_, options_, std::span<const Record>());
    schedules_ = state_->explore(6);
  }
  RunnerOptions runner() const {
    RunnerOptions options = worker();
    options.inputs = inputs_of(graph_);
    return options;
  }
  void SetUp() override { ASSERT_EQ(schedules_.size(), 6U); }
  void trial(size_t which, std::vector<double> ratios) { state_->trial(schedules_[which], ratios); }

  Graph graph_;
  NetworkBench bench_;
  TaskOptions options_;
  std::optional<NetworkTask> task_;
  std::unique_ptr<TaskState> state_;
  std::vector<Schedule> schedules_;
};

TEST_F(OneTask, PotentiallyFastestIsRacedFirst) {
  trial(0, {1.2, 1.2, 1.2, 1.2});
  trial(1, {0.95, 0.95});
  trial(2, std::vector<double>(16, 0.94));
  trial(3, {0.9, 0.9});
  const std::vector<Schedule> next = state_->contenders(6, kNoise);
  ASSERT_GE(next.size(), 3U);
  EXPECT_EQ(next[0], schedules_[3]);
  EXPECT_EQ(next[1], schedules_[1]);
  EXPECT_EQ(next[2], schedules_[2]) << "many samples leave little hope";
  for (const Schedule& s : next) EXPECT_NE(s, schedules_[0]);
}

TEST_F(OneTask, RetractedGainCanBeMadeAgain) {
  EXPECT_FALSE(state_->learn(kNoise));
  trial(0, {0.8, 0.8, 0.8, 0.8});
  EXPECT_TRUE(state_->learn(kNoise));
  EXPECT_EQ(state_->dry(), 0);
  trial(0, std::vector<double>(30, 1.05));  // it was luck
  EXPECT_FALSE(state_->learn(kNoise));
  EXPECT_GT(state_->dry(), 0);
  trial(1, std::vector<double>(8, 0.9));  // a smaller gain than the 0.8 above, but a real one
  EXPECT_TRUE(state_->learn(kNoise));
  EXPECT_EQ(state_->dry(), 0);
}

TEST_F(OneTask, AdvisedScheduleIsExploredFirstAndOnce) {
  TaskState other(*task_, options_, std::span<const Record>());
  const Schedule later = schedules_[5];
  EXPECT_FALSE(other.advise(task_->fallback));
  EXPECT_FALSE(other.advise(parse_schedule("conv2d_direct vectors=99 rows=1 tile=1 prefetch=0"))) << "not in the space";
  EXPECT_TRUE(other.advise(later));
  std::vector<Schedule> proposed = other.explore(1);
  EXPECT_EQ(proposed, std::vector<Schedule>{later});
  EXPECT_FALSE(other.advise(later)) << "it is under way";
  for (size_t most = 1; !other.explored(); most = 7) {
    for (Schedule& s : other.explore(most)) proposed.push_back(std::move(s));
  }
  std::set<std::string> texts;
  for (const Schedule& s : proposed) EXPECT_TRUE(texts.insert(s.text()).second) << s.text() << " is proposed twice";
  EXPECT_EQ(static_cast<int64_t>(texts.size()), other.size());
}

TEST_F(OneTask, WinnersAreOrderedByUpperBound) {
  trial(0, {0.7});  // one lucky sample: its interval is wide
  trial(1, std::vector<double>(25, 0.9));
  trial(2, std::vector<double>(25, 0.85));
  trial(3, {1.0, 1.0});
  trial(4, std::vector<double>(25, 0.95));
  const auto best = state_->winners(3, kNoise);
  ASSERT_EQ(best.size(), 3U);
  EXPECT_EQ(best[0]->schedule, schedules_[0]);
  EXPECT_EQ(best[1]->schedule, schedules_[2]);
  EXPECT_EQ(best[2]->schedule, schedules_[1]);
  EXPECT_EQ(state_->winner(kNoise, {schedules_[0].text()}), best[1]);
  EXPECT_EQ(state_->winners(9, kNoise).size(), 4U);
}

/// With a weight of memory, candidates are compared by their time and the price of their bytes.
TEST_F(OneTask, BytesHaveAPrice) {
  trial(0, std::vector<double>(25, 0.9));   // needs 100 bytes more
  trial(1, std::vector<double>(25, 0.95));  // as many as the default
  trial(2, std::vector<double>(25, 1.2));   // 50 less
  trial(3, std::vector<double>(25, 2.1));   // 400 less, but too slow
  const std::map<std::string, int64_t> bytes{
      {schedules_[0].text(), 100}, {schedules_[2].text(), -50}, {schedules_[3].text(), -400}};
  const auto weighed = [&](double toll) {
    state_->weigh([&](const Schedule& s) { return bytes.contains(s.text()) ? bytes.at(s.text()) : 0; }, toll);
    std::vector<Schedule> order;
    for (const Candidate* c : state_->winners(9, kNoise)) order.push_back(c->schedule);
    return order;
  };
  EXPECT_EQ(weighed(0.0001), (std::vector{schedules_[0], schedules_[1]}));
  EXPECT_EQ(weighed(0.002), (std::vector{schedules_[1]})) << "0.9 + 0.2 and 1.2 - 0.1 are no gain";
  EXPECT_EQ(weighed(0.006), (std::vector{schedules_[2], schedules_[1]})) << "1.2 - 0.3 is the best";
  EXPECT_EQ(state_->winner(kNoise)->bytes, -50);
  EXPECT_NEAR(state_->score(*state_->winner(kNoise), kNoise).value, 0.9, 1e-9);
  EXPECT_GT(state_->believed_cost(kNoise), 1.1) << "it is a time";
  EXPECT_TRUE(state_->learn(kNoise));
  EXPECT_FALSE(state_->learn(kNoise)) << "nothing has changed";
}

TEST(Judge, FoundPlanMustBeatBothPlans) {
  const Ratio faster{0.95, 0.94, 0.96}, slower{1.05, 1.04, 1.06}, unsure{0.99, 0.97, 1.01};
  for (const bool in_use : {false, true}) {
    EXPECT_EQ(judge(faster, {}, {}, in_use), Verdict::found);
    EXPECT_EQ(judge(unsure, {}, {}, in_use), Verdict::fallback);
    EXPECT_EQ(judge({}, {}, {}, in_use), Verdict::fallback);
    EXPECT_EQ(judge({}, {}, faster, in_use), Verdict::previous);
    EXPECT_EQ(judge({}, {}, slower, in_use), Verdict::fallback);
    EXPECT_EQ(judge(faster, faster, faster, in_use), Verdict::found);
    EXPECT_EQ(judge(faster, unsure, faster, in_use), Verdict::previous) << "perhaps slower than the previous one";
    EXPECT_EQ(judge(faster, slower, faster, in_use), Verdict::previous);
    EXPECT_EQ(judge(faster, unsure, slower, in_use), Verdict::found) << "the previous plan is not worth keeping";
    EXPECT_EQ(judge(faster, faster, unsure, in_use), Verdict::found);
  }
}

TEST(Judge, PlanInUseIsKeptUnlessClearlySlower) {
  const Ratio faster{0.95, 0.94, 0.96}, slower{1.05, 1.04, 1.06}, unsure{0.99, 0.97, 1.01};
  EXPECT_EQ(judge({}, {}, unsure, true), Verdict::previous) << "a short race says too little to throw it away";
  EXPECT_EQ(judge(slower, slower, unsure, true), Verdict::previous);
  EXPECT_EQ(judge(faster, unsure, unsure, true), Verdict::previous);
  EXPECT_EQ(judge({}, {}, unsure, false), Verdict::fallback) << "what records give was never raced as a whole";
  EXPECT_EQ(judge(slower, slower, unsure, false), Verdict::fallback);
  EXPECT_EQ(judge(faster, unsure, unsure, false), Verdict::found);
}

}  // namespace
}  // namespace kilter::tune
