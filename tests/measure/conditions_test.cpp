#include "measure/conditions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/ticks.h"

namespace kilter {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;

std::vector<std::string> names(const std::vector<Difference>& differences) {
  std::vector<std::string> list;
  for (const Difference& d : differences) list.push_back(d.what);
  return list;
}

TEST(Conditions, OfThisMachine) {
  const Conditions c = current_conditions();
  EXPECT_EQ(c.clock, tick_source());
  EXPECT_EQ(c.estimator, "mean of the middle half");
  EXPECT_THAT(c.pinning, MatchesRegex("[0-9][0-9,-]*"));
  EXPECT_THAT(c.huge_pages, testing::AnyOf("always", "madvise", "never", "unknown"));
  EXPECT_THAT(c.date, MatchesRegex("20[0-9][0-9]-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]Z"));
  EXPECT_EQ(c.records, "none");
}

TEST(Conditions, JsonRoundTrip) {
  Conditions c = current_conditions();
  c.device = "AMD EPYC, 2 CPUs";
  c.threads = 2;
  c.weights = "cold";
  c.weights_from = "L3";
  c.activations = "as the predecessor left them";
  c.taken = 100, c.kept = 90, c.disturbed = 10;
  c.target = "znver5", c.codegen = "LLVM 22", c.records = "log.json", c.program = "0.1.0";
  const nlohmann::json json = to_json(c);
  EXPECT_EQ(json.at("weights_from"), "L3");
  const Conditions back = conditions_from_json(nlohmann::json::parse(json.dump()));
  EXPECT_TRUE(differences(c, back).empty());
  EXPECT_EQ(to_json(back), json);
}

TEST(Conditions, MissingFieldsKeepTheirDefaultsAndWrongOnesAreErrors) {
  EXPECT_EQ(conditions_from_json(nlohmann::json::object()).records, "none");
  try {
    conditions_from_json({{"threads", "two"}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::bad_input);
    EXPECT_THAT(e.message(), HasSubstr("conditions: "));
  }
}

TEST(Differences, MostImportantComesFirst) {
  Conditions a;
  Conditions b;
  b.huge_pages = "never";
  b.weights = "cold";
  b.device = "other";
  b.program = "0.2";
  b.records = "tuned.json";
  b.target = "x86-64-v3";
  b.threads = 16;
  const std::vector<Difference> list = differences(a, b);
  EXPECT_THAT(names(list), ElementsAre("threads", "target", "tuning records", "version of Kilter", "device", "weights",
                                       "huge pages"));
  EXPECT_EQ(list[0].a, "1");
  EXPECT_EQ(list[0].b, "16");
  EXPECT_EQ(list[2].a, "none");
  EXPECT_EQ(list[1].a, "not known");
}

TEST(Differences, DatesAndCountsAreIgnored) {
  Conditions a;
  Conditions b;
  b.date = "2026-01-01T00:00:00Z";
  b.taken = 5, b.kept = 4, b.disturbed = 1;
  EXPECT_TRUE(differences(a, b).empty());
}

TEST(Affinity, ListsAreShortened) {
  EXPECT_EQ(cpu_list_text({}), "");
  EXPECT_EQ(cpu_list_text({3}), "3");
  EXPECT_EQ(cpu_list_text({0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(cpu_list_text({0, 2, 4, 5}), "0,2,4-5");
  EXPECT_FALSE(affinity_cpus().empty());
}

TEST(Affinity, ListsAreCounted) {
  EXPECT_EQ(count_cpus("0-3,8\n"), 5);
  EXPECT_EQ(count_cpus("3"), 1);
  EXPECT_THAT(cpus_in("8,0-2,1"), ElementsAre(0, 1, 2, 8));
  for (const char* bad : {"", "a", "0-", "3-1", "-1", "0,,1", "0-9999999999"}) EXPECT_EQ(count_cpus(bad), 0) << bad;
  EXPECT_GE(online_cpus(), static_cast<int>(affinity_cpus().size()));
}

TEST(Affinity, ThreadStaysOnItsCpus) {
  const std::vector<int> all = affinity_cpus();
  std::thread([&] {
    ASSERT_TRUE(set_affinity({all.back()}));
    EXPECT_EQ(affinity_cpus(), std::vector<int>{all.back()});
    std::thread([&] { EXPECT_EQ(affinity_cpus(), std::vector<int>{all.back()}); }).join();
    ASSERT_TRUE(set_affinity({}));
    EXPECT_EQ(affinity_cpus(), std::vector<int>{all.back()}) << "none: nothing changes";
  }).join();
  EXPECT_EQ(affinity_cpus(), all);
}

Conditions disturbed(int64_t of_hundred) {
  Conditions c;
  c.taken = 100, c.disturbed = of_hundred, c.disturbed_by = "waited for a CPU in 9", c.best_ms = 2.5;
  c.threads = 2, c.pinning = "0-1";
  return c;
}

TEST(Quietness, DependsOnTheShareOfDisturbedSamples) {
  EXPECT_EQ(quietness(Conditions()), Quietness::unknown);
  EXPECT_EQ(quietness(disturbed(0)), Quietness::quiet);
  EXPECT_EQ(quietness(disturbed(5)), Quietness::quiet);
  EXPECT_EQ(quietness(disturbed(6)), Quietness::slightly);
  EXPECT_EQ(quietness(disturbed(25)), Quietness::slightly) << "what the mean of the middle half leaves out";
  EXPECT_EQ(quietness(disturbed(26)), Quietness::partly);
  EXPECT_EQ(quietness(disturbed(50)), Quietness::partly);
  EXPECT_EQ(quietness(disturbed(51)), Quietness::busy);
  for (const int64_t good : {0, 5, 25}) EXPECT_TRUE(undisturbed_figure(disturbed(good))) << good;
  EXPECT_FALSE(undisturbed_figure(disturbed(26)));
  EXPECT_FALSE(undisturbed_figure(Conditions()));
}

TEST(Quietness, TextIsOneLine) {
  EXPECT_EQ(quiet_text(Conditions()), "not known: no runs were checked for other programs");
  EXPECT_EQ(quiet_text(disturbed(3)), "quiet: 3 of 100 runs disturbed (3 %), best 2.500 ms");
  EXPECT_EQ(quiet_text(disturbed(25)),
            "slightly disturbed: 25 of 100 runs disturbed (25 %: waited for a CPU in 9), best 2.500 ms");
  EXPECT_EQ(quiet_text(disturbed(40), "passes"),
            "partly disturbed: 40 of 100 passes disturbed (40 %: waited for a CPU in 9), best 2.500 ms");
  EXPECT_EQ(quiet_text(disturbed(100)),
            "busy: 100 of 100 runs disturbed (100 %: waited for a CPU in 9), because other programs use the machine; "
            "the time is an upper bound, best 2.500 ms");
  Conditions slowed = disturbed(100);
  slowed.disturbed_by = "a different clock rate in 90, waited for a CPU in 9";
  EXPECT_THAT(quiet_text(slowed), HasSubstr("because the clock rate changes; the time is an upper bound"));
  Conditions crowded = disturbed(100);
  crowded.threads = 8;
  EXPECT_TRUE(more_threads_than_cpus(crowded));
  EXPECT_THAT(quiet_text(crowded), HasSubstr("because 8 threads share 2 CPUs; the time is an upper bound"));
}

TEST(Quietness, BusyMachineGivesAnInterval) {
  EXPECT_EQ(figure_text(6.8333, disturbed(50), 3), "6.833 ms");
  EXPECT_EQ(figure_text(6.8333, disturbed(51), 3), "2.500 to 6.833 ms");
  EXPECT_EQ(figure_text(2.5, disturbed(51), 3), "2.500 ms");
}

TEST(Quietness, IsStoredWithTheConditions) {
  const nlohmann::json json = to_json(disturbed(96));
  EXPECT_EQ(json.at("quiet"), "busy");
  EXPECT_EQ(json.at("disturbed_share"), 0.96);
  EXPECT_EQ(json.at("best_ms"), 2.5);
  EXPECT_EQ(quiet_text(conditions_from_json(json)), quiet_text(disturbed(96)));
  EXPECT_FALSE(to_json(Conditions()).contains("quiet")) << "records have no figure of their own";
}

TEST(AbsentThreads, AreStoredWithTheConditions) {
  EXPECT_FALSE(to_json(Conditions()).contains("took_part")) << "not known";
  Conditions c;
  c.took_part = {1, 0.5};
  EXPECT_EQ(to_json(c).at("absent_threads"), "");
  c.took_part = {1, 0.031};
  const nlohmann::json json = to_json(c);
  EXPECT_EQ(conditions_from_json(json).took_part, c.took_part);
  EXPECT_EQ(
      json.at("absent_threads"),
      "2 threads requested, 1 took part: thread 1 joined in 3 % of the work for all threads, since its CPU was in "
      "use; end other programs, or use 1 thread");
  c.took_part = {1, 0.2, 0.9, 0};
  EXPECT_EQ(
      to_json(c).at("absent_threads"),
      "4 threads requested, 2 took part: threads 1, 3 joined in 0 to 20 % of the work for all threads, since their "
      "CPUs were in use; end other programs, or use 2 threads");
}

}  // namespace
}  // namespace kilter
