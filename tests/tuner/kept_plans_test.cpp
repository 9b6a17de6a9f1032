// What the graph tuner chose, beside the records.
#include "tune/tuner/kept_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "../base/scratch_folder.h"
#include "base/files.h"
#include "network.h"
#include "tune/tuner/choices_file.h"

namespace kilter::tune {
namespace {

class PlansFile : public testing::Test {
 protected:
  std::optional<KeptPlan> found(const PlanKey& key) const {
    const KeptPlans all = read_plans(file_);
    EXPECT_TRUE(all.damaged.empty()) << all.damaged.front();
    const KeptPlan* plan = all.find(key);
    return plan != nullptr ? std::optional(*plan) : std::nullopt;
  }
  static KeptPlan plan(int threads, const std::string& choices) {
    const PlanKey key{graph_key(small_network()), "znver5", "A CPU", "LLVM 1", threads};
    return {key, "squeezenet", "2026-01-02", parse_choices(choices, "here"), {0.9, 0.8, 0.95}, {0.7, 0.6, 0.8}};
  }
  ScratchFolder folder_;
  std::filesystem::path file_ = plans_file((folder_.path() / "records.db").string());
};

TEST_F(PlansFile, TheLatestOfExactlyThisIsFound) {
  EXPECT_FALSE(found(plan(1, "").key));
  keep_plan(file_, plan(1, "conv1 = fuse=no"));
  keep_plan(file_, plan(2, "conv1 = threads=1"));
  keep_plan(file_, plan(1, "pool1 = layout=plain\nconv1 = map item=4096 threads=3"));
  const auto latest = found(plan(1, "").key);
  ASSERT_TRUE(latest.has_value());
  EXPECT_EQ(text(latest->choices, ""), "conv1 = map item=4096 threads=3\npool1 = layout=plain\n");
  EXPECT_EQ(latest->network, "squeezenet");
  EXPECT_EQ(latest->ratio.high, 0.95);
  EXPECT_EQ(latest->default_ratio.low, 0.6);
  PlanKey other = plan(1, "").key;
  other.device = "Another CPU";
  EXPECT_FALSE(found(other));
}

TEST_F(PlansFile, ADamagedLineIsSkippedAndTold) {
  keep_plan(file_, plan(1, "conv1 = fuse=no"));
  std::ofstream(file_, std::ios::app) << "{\"graph\": 12}\n\nnot JSON\n"
                                      << "{\"graph\": 1, \"target\": \"t\", \"device\": \"d\", \"codegen\": \"c\", "
                                         "\"threads\": 1, \"network\": \"n\", \"date\": \"\", \"plan\": \"conv1\"}\n";
  keep_plan(file_, plan(2, "conv1 = threads=1"));
  const KeptPlans all = read_plans(file_);
  EXPECT_NE(all.find(plan(1, "").key), nullptr);
  EXPECT_NE(all.find(plan(2, "").key), nullptr);
  using testing::AllOf, testing::HasSubstr, testing::StartsWith;
  const auto skipped = [&](int line) {
    return StartsWith(file_.string() + ": line " + std::to_string(line) + ": skipped: no kept plan: ");
  };
  EXPECT_THAT(all.damaged,
              testing::ElementsAre(skipped(2), skipped(4),
                                   AllOf(skipped(5), HasSubstr("its plan line 1: expected NODE = TEMPLATE"))));
}

TEST_F(PlansFile, WhatIsAppendedBehindACutOffLineIsWhole) {
  keep_plan(file_, plan(1, "conv1 = fuse=no"));
  const std::string whole = read_file(file_);
  std::ofstream(file_, std::ios::trunc) << whole << whole.substr(0, whole.size() / 2);
  keep_plan(file_, plan(2, "conv1 = threads=1"));
  const KeptPlans all = read_plans(file_);
  EXPECT_NE(all.find(plan(1, "").key), nullptr);
  EXPECT_NE(all.find(plan(2, "").key), nullptr);
  EXPECT_THAT(all.damaged, testing::ElementsAre(testing::HasSubstr("line 2: skipped: ")));
  // A last line that lacks nothing but its end is one.
  std::ofstream(file_, std::ios::trunc) << whole.substr(0, whole.size() - 1);
  EXPECT_TRUE(found(plan(1, "").key));
}

TEST_F(PlansFile, WritersWaitForOneAnother) {
  std::vector<std::thread> writers;
  for (int t = 1; t <= 4; ++t) {
    writers.emplace_back([this, t] {
      for (int i = 0; i < 25; ++i) keep_plan(file_, plan(t, "conv1 = fuse=no"));
    });
  }
  for (std::thread& writer : writers) writer.join();
  const KeptPlans all = read_plans(file_);
  EXPECT_EQ(all.plans.size(), 100U);
  EXPECT_THAT(all.damaged, testing::IsEmpty());
}

TEST_F(PlansFile, SettingsOfTheCommandLineAreAPlansOwn) {
  CompileOptions options = native();
  EXPECT_EQ(plan_settings(options, true), "");
  options.accuracy = Accuracy::strict, options.memory = 1000000, options.disable = {"fuse", "simplify"};
  options.no_fuse = {"conv1"}, options.layer_threads = {{"conv1", 1}};
  options.schedules = {{"pool1", parse_schedule("map item=1024")}};
  EXPECT_EQ(plan_settings(options, false), "--accuracy strict --memory 1000000 --disable fuse,simplify");
  EXPECT_EQ(plan_settings(options, true),
            "--accuracy strict --memory 1000000 --disable fuse,simplify --no-fuse conv1 --layer-threads conv1=1 "
            "--schedule pool1=map item=1024");
  KeptPlan strict = plan(1, "conv1 = threads=1");
  strict.key.settings = "--accuracy strict";
  keep_plan(file_, strict);
  EXPECT_FALSE(found(plan(1, "").key));
  EXPECT_TRUE(found(strict.key));
}

TEST(GraphKey, DiffersWithNamesOperatorsAndShapes) {
  const uint64_t key = graph_key(small_network());
  EXPECT_EQ(key, graph_key(small_network()));
  EXPECT_NE(key, graph_key(zoo::build("squeezenet1_1", {.size = 96, .classes = 10})));
  Graph renamed = small_network();
  renamed.node(renamed.order().front()).name += "x";
  EXPECT_NE(key, graph_key(renamed));
}

}  // namespace
}  // namespace kilter::tune
