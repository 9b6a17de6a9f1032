// Schedules that are tried again, and the search for the one at fault if a failure names none.
#include "tune/tuner/search/retries.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace kilter::tune {
namespace {

Probe probe(int number) {
  return {0, fmt::format("conv{}", number), Schedule{fmt::format("template{}", number), {}}, 0};
}

TEST(Retries, TheLongestWaitingComeFirst) {
  Retries again;
  for (int i = 0; i < 5; ++i) again.add(probe(i));
  const std::vector<Probe> out = again.take(3);
  ASSERT_EQ(out.size(), 3U);
  EXPECT_EQ(out.front().node, "conv0");
  EXPECT_EQ(again.take(24).size(), 2U);
  EXPECT_TRUE(again.empty());
}

TEST(Retries, ALayerHasOneScheduleAtATime) {
  Retries again;
  again.add(probe(1));
  Probe other = probe(1);
  other.schedule.name = "another";
  again.add(other);
  again.add(probe(2));
  EXPECT_EQ(again.take(24).size(), 2U) << "two schedules cannot run in one layer";
  const std::vector<Probe> rest = again.take(24);
  ASSERT_EQ(rest.size(), 1U);
  EXPECT_EQ(rest.front().schedule.name, "another");
}

TEST(Retries, AlwaysDisturbedScheduleIsGivenUp) {
  Retries again;
  Probe one = probe(1);
  int trials = 0;
  while (again.disturbed(one)) {
    ASSERT_LT(++trials, 20);
    one = again.take(24).front();
  }
  EXPECT_EQ(trials, 5);
  EXPECT_TRUE(again.empty());
}

/// A variant that includes the culprit fails as a whole. All other schedules are measured, and the culprit is found.
TEST(Retries, CulpritIsIsolated) {
  constexpr int kProbes = 24, kCulprit = 17;
  Retries again;
  for (int i = 0; i < kProbes; ++i) ASSERT_TRUE(again.suspect(probe(i), kProbes));
  int measured = 0, found = -1, variants = 0;
  while (!again.empty()) {
    ASSERT_LT(++variants, 100);
    const std::vector<Probe> variant = again.take(kProbes);
    const bool fails = std::ranges::any_of(variant, [&](const Probe& p) { return p.node == "conv17"; });
    for (const Probe& p : variant) {
      if (!fails)
        ++measured;
      else if (!again.suspect(p, variant.size()))
        found = std::stoi(p.node.substr(4));
    }
  }
  EXPECT_EQ(found, kCulprit);
  EXPECT_EQ(measured, kProbes - 1);
  EXPECT_LT(variants, 14);
}

}  // namespace
}  // namespace kilter::tune
