// The file of accepted plans, which is next to that of the records.
#include "tune/tuner/plans/kept_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "../base/scratch_folder.h"
#include "base/files.h"
#include "network.h"
#include "tune/tuner/plans/choices_file.h"

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
  void keep(const KeptPlan& plan) const {
    keep_plan(file_, plan.key, [&](const KeptPlan*) { return plan; });
  }
  ScratchFolder folder_;
  std::filesystem::path file_ = plans_file((folder_.path() / "records.db").string());
};

TEST_F(PlansFile, IsPrivateToTheUser) {
  const mode_t before = ::umask(0);
  keep(plan(1, "conv1 = fuse=no"));
  ::umask(before);
  EXPECT_EQ(static_cast<int>(std::filesystem::status(file_).permissions()), 0600);
}

TEST_F(PlansFile, LatestPlanOfTheKeyIsFound) {
  EXPECT_FALSE(found(plan(1, "").key));
  keep(plan(1, "conv1 = fuse=no"));
  keep(plan(2, "conv1 = threads=1"));
  keep(plan(1, "pool1 = layout=plain\nconv1 = map item=4096 threads=3"));
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

TEST_F(PlansFile, KeepsTheObjectiveOfAPlan) {
  keep(plan(1, "conv1 = fuse=no"));
  EXPECT_EQ(read_file(file_).find("objective"), std::string::npos) << "time alone is the usual objective";
  EXPECT_EQ(found(plan(1, "").key)->objective, TuneObjective{});
  KeptPlan small = plan(1, "conv1 = threads=1");
  small.objective = {80, 20}, small.bytes = 0.75;
  keep(small);
  EXPECT_EQ(found(small.key)->objective, small.objective);
  EXPECT_EQ(found(small.key)->bytes, 0.75);
}

TEST_F(PlansFile, DamagedLineIsReportedAndSkipped) {
  keep(plan(1, "conv1 = fuse=no"));
  std::ofstream(file_, std::ios::app) << "{\"graph\": 12}\n\nnot JSON\n"
                                      << "{\"graph\": 1, \"target\": \"t\", \"device\": \"d\", \"codegen\": \"c\", "
                                         "\"threads\": 1, \"network\": \"n\", \"date\": \"\", \"plan\": \"conv1\"}\n";
  keep(plan(2, "conv1 = threads=1"));
  const KeptPlans all = read_plans(file_);
  EXPECT_NE(all.find(plan(1, "").key), nullptr);
  EXPECT_NE(all.find(plan(2, "").key), nullptr);
  using testing::AllOf, testing::HasSubstr, testing::StartsWith;
  const auto skipped = [&](int line) {
    return StartsWith(file_.string() + ": line " + std::to_string(line) + ": skipped: not a kept plan: ");
  };
  EXPECT_THAT(all.damaged,
              testing::ElementsAre(skipped(2), skipped(4),
                                   AllOf(skipped(5), HasSubstr("its plan line 1: expected NODE = TEMPLATE"))));
}

TEST_F(PlansFile, NewerLineIsSkipped) {
  keep(plan(1, "conv1 = fuse=no"));
  std::string line = read_file(file_);
  line.replace(line.find("\"format\":1"), 10, "\"format\":2");
  std::ofstream(file_, std::ios::app) << line;
  const KeptPlans all = read_plans(file_);
  EXPECT_EQ(all.plans.size(), 1U);
  EXPECT_THAT(
      all.damaged,
      testing::ElementsAre(
          file_.string() +
          ": line 2: skipped: not a kept plan: a newer version wrote it (format 2; this version reads up to 1)"));
}

TEST_F(PlansFile, MergingKeepsTheLaterOfEachKey) {
  KeptPlan early = plan(1, "conv1 = fuse=no"), late = plan(1, "conv1 = threads=1"), other = plan(2, "conv1 = fuse=no");
  early.date = "2026-01-02T08:00:00Z", late.date = "2026-01-03T08:00:00Z";
  const KeptPlans elsewhere{{early, other, late}, {}};
  EXPECT_EQ(elsewhere.latest().size(), 2U);
  EXPECT_EQ(merge_plans(file_, elsewhere.latest()), 2);
  EXPECT_EQ(merge_plans(file_, elsewhere.latest()), 0) << "a second time there is nothing new";
  EXPECT_EQ(found(late.key)->choices, late.choices);
  const KeptPlans older{{early}, {}};
  EXPECT_EQ(merge_plans(file_, older.latest()), 0);
  EXPECT_EQ(found(late.key)->choices, late.choices);
  EXPECT_TRUE(found(other.key));
}

TEST_F(PlansFile, LineAppendedToATruncatedLineIsIntact) {
  keep(plan(1, "conv1 = fuse=no"));
  const std::string whole = read_file(file_);
  std::ofstream(file_, std::ios::trunc) << whole << whole.substr(0, whole.size() / 2);
  keep(plan(2, "conv1 = threads=1"));
  const KeptPlans all = read_plans(file_);
  EXPECT_NE(all.find(plan(1, "").key), nullptr);
  EXPECT_NE(all.find(plan(2, "").key), nullptr);
  EXPECT_THAT(all.damaged, testing::ElementsAre(testing::HasSubstr("line 2: skipped: ")));
  // A last line that only lacks its line break is complete.
  std::ofstream(file_, std::ios::trunc) << whole.substr(0, whole.size() - 1);
  EXPECT_TRUE(found(plan(1, "").key));
}

TEST_F(PlansFile, WritersWaitForOneAnother) {
  std::vector<std::thread> writers;
  for (int t = 1; t <= 4; ++t) {
    writers.emplace_back([this, t] {
      for (int i = 0; i < 25; ++i) keep(plan(t, "conv1 = fuse=no"));
    });
  }
  for (std::thread& writer : writers) writer.join();
  const KeptPlans all = read_plans(file_);
  EXPECT_EQ(all.plans.size(), 100U);
  EXPECT_THAT(all.damaged, testing::IsEmpty());
}

// A writer reads, decides and adds under one lock, so no worse plan ever follows a better one.
TEST_F(PlansFile, WritersDecideUnderOneLock) {
  const PlanKey key = plan(1, "").key;
  std::vector<std::thread> writers;
  for (int t = 0; t < 8; ++t) {
    writers.emplace_back([&, t] {
      for (int i = 50; i > 0; --i) {
        KeptPlan mine = plan(1, "conv1 = fuse=no");
        mine.default_ratio.value = 0.01 * (8 * i + t);
        keep_plan(file_, key, [&](const KeptPlan* latest) {
          std::this_thread::sleep_for(std::chrono::microseconds(20));
          const bool better = latest == nullptr || mine.default_ratio.value < latest->default_ratio.value;
          return better ? std::optional(mine) : std::nullopt;
        });
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  const KeptPlans all = read_plans(file_);
  ASSERT_GE(all.plans.size(), 50U);
  for (size_t i = 1; i < all.plans.size(); ++i)
    EXPECT_LT(all.plans[i].default_ratio.value, all.plans[i - 1].default_ratio.value);
  EXPECT_EQ(all.plans.back().default_ratio.value, 0.08);
  EXPECT_TRUE(all.damaged.empty());
}

TEST_F(PlansFile, CommandLineSettingsArePartOfTheKey) {
  CompileOptions options = native();
  EXPECT_EQ(plan_settings(options, true), "");
  options.accuracy = Accuracy::strict, options.budget.memory = 1000000, options.debug.disable = {"fuse", "simplify"};
  options.choices["conv1"].fuse = Fusion::none, options.choices["conv1"].threads = 1;
  options.choices["pool1"].schedule = parse_schedule("map item=1024");
  EXPECT_EQ(plan_settings(options, false), "--accuracy strict --memory 1000000 --disable fuse,simplify");
  EXPECT_EQ(plan_settings(options, true),
            "--accuracy strict --memory 1000000 --disable fuse,simplify --no-fuse conv1 --layer-threads conv1=1 "
            "--schedule pool1=map item=1024");
  KeptPlan strict = plan(1, "conv1 = threads=1");
  strict.key.settings = "--accuracy strict";
  keep(strict);
  EXPECT_FALSE(found(plan(1, "").key));
  EXPECT_TRUE(found(strict.key));
  CompileOptions narrow = native();
  narrow.precision = Precision::bf16, narrow.keep_float = {"Softmax", "conv1"};
  EXPECT_EQ(plan_settings(narrow, true), "--precision bf16 --keep-float Softmax,conv1");
  EXPECT_EQ(plan_settings(narrow, false), plan_settings(narrow, true))
      << "records of one precision never serve another";
}

TEST(GraphKey, DiffersWithNamesOperatorsAndShapes) {
  const uint64_t key = graph_key(small_network());
  EXPECT_EQ(key, graph_key(small_network()));
  EXPECT_NE(key, graph_key(zoo::build("squeezenet1_1", {.size = 96, .classes = 10})));
  Graph other = small_network();
  for (const NodeId id : other.order()) {
    if (other.node(id).op->name == "MaxPool") other.change_node(id).attrs["ceil_mode"] = int64_t{7};
  }
  EXPECT_NE(key, graph_key(other)) << "attributes count";
  Graph renamed = small_network();
  renamed.change_node(renamed.order().front()).name += "x";
  EXPECT_NE(key, graph_key(renamed));
}

}  // namespace
}  // namespace kilter::tune
