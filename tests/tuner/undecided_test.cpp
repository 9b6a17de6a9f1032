// The message of a run that keeps the default plan: whether the search or the machine is the reason.
#include "tune/tuner/undecided.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tune/tuner/tune_json.h"

namespace kilter::tune {
namespace {

/// A run that keeps the default plan, with this share of its runs disturbed.
TuneResult stayed(int64_t disturbed_of_hundred) {
  TuneResult r;
  r.same_plan = true, r.trials = 20;
  r.conditions.taken = 100, r.conditions.disturbed = disturbed_of_hundred;
  return r;
}

TuneResult with_rejected(TuneResult r, Ratio ratio) {
  r.rejected = RejectedPlan{{}, {}, ratio, 30, 2};
  return r;
}

TEST(Undecided, BusyMachineIsGivenAsTheReason) {
  EXPECT_EQ(undecided_text(stayed(73)),
            "the machine was too busy to decide whether another schedule is faster (73 % of the runs were disturbed)");
  EXPECT_EQ(to_json(stayed(73)).at("undecided"), undecided_text(stayed(73)));
  EXPECT_EQ(undecided_text(stayed(25)), "");
  EXPECT_FALSE(to_json(stayed(25)).contains("undecided"));
  TuneResult kept = stayed(73);
  kept.same_plan = false, kept.kept = true;
  EXPECT_NE(undecided_text(kept), "") << "the previous plan stays for the same reason";
  TuneResult small = stayed(73);
  small.objective = parse_objective("memory");
  EXPECT_NE(undecided_text(small).find("another schedule is better by memory (73 %"), std::string::npos);
}

TEST(Undecided, APartlyDisturbedRaceIsUndecidedIfItsPlanMayBeFaster) {
  EXPECT_EQ(undecided_text(stayed(40)), "") << "no plan was found";
  EXPECT_NE(undecided_text(with_rejected(stayed(40), {0.97, 0.93, 1.02})), "");
  EXPECT_EQ(undecided_text(with_rejected(stayed(40), {1.05, 1.01, 1.09})), "") << "it is certainly slower";
  EXPECT_EQ(undecided_text(with_rejected(stayed(3), {0.99, 0.98, 1.002})), "") << "nothing disturbed the race";
}

TEST(Undecided, IsEmptyIfThereIsAnotherReasonOrAnAcceptedPlan) {
  TuneResult r = stayed(90);
  r.same_plan = false;
  EXPECT_EQ(undecided_text(r), "");
  r = stayed(90), r.refused = "it is wrong";
  EXPECT_EQ(undecided_text(r), "");
  r = stayed(90), r.unheld = "no time";
  EXPECT_EQ(undecided_text(r), "");
  r = stayed(90), r.trials = 0;
  EXPECT_EQ(undecided_text(r), "") << "nothing was tried";
}

}  // namespace
}  // namespace kilter::tune
