// What the graph tuner chose, beside the records.
#include "tune/tuner/kept_plans.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/files.h"
#include "network.h"
#include "tune/tuner/choices_file.h"

namespace kilter::tune {
namespace {

class KeptPlans : public testing::Test {
 protected:
  KeptPlans() { std::filesystem::remove(file_); }
  static KeptPlan plan(int threads, const std::string& choices) {
    const PlanKey key{graph_key(small_network()), "znver5", "A CPU", "LLVM 1", threads};
    return {key, "squeezenet", "2026-01-02", parse_choices(choices, "here"), {0.9, 0.8, 0.95}, {0.7, 0.6, 0.8}};
  }
  std::filesystem::path file_ = plans_file(testing::TempDir() + "kept_plans_test.db");
};

TEST_F(KeptPlans, TheLatestOfExactlyThisIsFound) {
  EXPECT_FALSE(find_plan(file_, plan(1, "").key));
  keep_plan(file_, plan(1, "conv1 = fuse=no"));
  keep_plan(file_, plan(2, "conv1 = threads=1"));
  keep_plan(file_, plan(1, "pool1 = layout=plain\nconv1 = map item=4096 threads=3"));
  const auto found = find_plan(file_, plan(1, "").key);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(text(found->choices, ""), "conv1 = map item=4096 threads=3\npool1 = layout=plain\n");
  EXPECT_EQ(found->network, "squeezenet");
  EXPECT_EQ(found->ratio.high, 0.95);
  EXPECT_EQ(found->default_ratio.low, 0.6);
  PlanKey other = plan(1, "").key;
  other.device = "Another CPU";
  EXPECT_FALSE(find_plan(file_, other));
}

TEST_F(KeptPlans, AnUnfinishedLineIsPassedOverAndADamagedOneIsNamed) {
  keep_plan(file_, plan(1, "conv1 = fuse=no"));
  std::ofstream(file_, std::ios::app) << "{\"graph\": 12";
  EXPECT_TRUE(find_plan(file_, plan(1, "").key));
  std::ofstream(file_, std::ios::app) << "\n";
  try {
    find_plan(file_, plan(1, "").key);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_TRUE(e.message().starts_with(file_.string() + " line 2: no kept plan (")) << e.message();
    EXPECT_TRUE(e.message().ends_with("; remove the line, or the file and tune again")) << e.message();
  }
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
