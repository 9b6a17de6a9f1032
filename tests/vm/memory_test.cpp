// The memory of programs that get inputs of many sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "../onnx/model_maker.h"
#include "compile/memory_model.h"
#include "compile/session.h"

namespace kilter {
namespace {

constexpr int64_t kWidth = 64, kWide = 512, kFewest = 16, kMost = 1500;

/// y = x w v, and the indices of its elements above 0, for any number of rows.
onnx::ModelMaker products_and_indices() {
  onnx::ModelMaker maker;
  maker.input("x", {"n", static_cast<int>(kWidth)});
  const auto weights = [&](const std::string& name, int64_t rows, int64_t columns) {
    const Tensor values = random_input(name, DType::f32, {rows, columns});
    onnx::set_floats(maker.initializer(), name, values.shape(),
                     {values.span<float>().begin(), values.span<float>().end()});
  };
  weights("w", kWidth, kWidth), weights("v", kWidth, kWide);
  maker.node("MatMul", {"x", "w"}, {"h"}, "first");
  maker.node("Relu", {"h"}, {"r"});
  maker.node("MatMul", {"r", "v"}, {"y"}, "second");
  maker.node("ReduceMax", {"y"}, {"m"});
  maker.node("NonZero", {"m"}, {"where"}, "nz");
  maker.output("y", {"n", static_cast<int>(kWide)});
  maker.output("where", {2, "count"}, 7);
  return maker;
}

class Rows {
 public:
  explicit Rows(int64_t plan_cache_bytes) : model_(products_and_indices().parse()) {
    Session::Options options;
    options.compile.target = parse_target("native");
    options.threads = 1;
    options.plan_cache_bytes = plan_cache_bytes;
    session_ = Session::open(model_.name(), options);
  }
  std::vector<Tensor> run(int64_t rows) {
    return session_->run({{"x", random_input("x", DType::f32, {rows, kWidth})}});
  }
  int64_t held() const { return session_->held_bytes(); }
  /// Rows of x for which the first segment has a plan, and how often it has run with them.
  std::map<int64_t, int64_t> plans() {
    std::map<int64_t, int64_t> all;
    for (const ProgramRunner::FormState& form : session_->program().forms()) {
      if (form.segment == 0 && form.plan != nullptr) all[form.inputs.at(0).shape.at(0)] = form.runs;
    }
    return all;
  }

 private:
  MemoryModel model_;
  std::unique_ptr<Session> session_;
};

TEST(ProgramMemory, HundredSizesNeedOnlyTheResultsOfTheLargest) {
  Rows rows(INT64_MAX);
  rows.run(kMost);
  const int64_t largest = rows.held(), result = kMost * kWide * 4;
  std::mt19937 random(1);
  int64_t all_results = 0;
  for (int i = 0; i < 100; ++i) {
    const int64_t n = kFewest + static_cast<int64_t>(random() % (kMost - kFewest));
    EXPECT_EQ(rows.run(n).at(0).shape(), (Shape{n, kWide}));
    all_results += n * kWide * 4;
  }
  const int64_t plans = 100 * (int64_t{256} << 10);  // their machine code
  EXPECT_LE(rows.held(), largest + 2 * result + plans);
  EXPECT_GT(all_results, 2 * (2 * result + plans)) << "results for each size would have broken the limit";
  EXPECT_GT(rows.plans().size(), 90U);
}

TEST(ProgramMemory, StaysWithinTheLimitOverOneHundredSizes) {
  constexpr int64_t kLimit = int64_t{100} << 10;  // of plans, which share weights: their code
  Rows limited(kLimit), unlimited(INT64_MAX), one(kLimit);
  one.run(kMost);
  std::mt19937 random(2);
  for (int i = 0; i < 100; ++i) {
    const int64_t n = kFewest + static_cast<int64_t>(random() % (kMost - kFewest));
    const std::vector<Tensor> got = limited.run(n), want = unlimited.run(n);
    ASSERT_TRUE(got.at(0).same(want.at(0)) && got.at(1).same(want.at(1))) << n << " rows";
    ASSERT_LE(limited.held(), 2 * one.held() + kLimit) << n << " rows";
  }
  EXPECT_LT(limited.plans().size(), unlimited.plans().size());
  EXPECT_GT(limited.plans().size(), 2U) << "the limit allows some";
}

TEST(ProgramMemory, EvictsLeastRecentlyUsedPlans) {
  Rows rows(int64_t{20} << 10);  // some plans of this network
  std::vector<int64_t> order;    // sizes, most recently used first
  std::mt19937 random(3);
  size_t most = 0, dropped = 0;
  for (int i = 0; i < 60; ++i) {
    const int64_t n = 100 * static_cast<int64_t>(1 + random() % 8);
    rows.run(n);
    std::erase(order, n);
    order.insert(order.begin(), n);
    const std::map<int64_t, int64_t> plans = rows.plans();
    for (size_t k = 0; k < plans.size(); ++k)
      ASSERT_TRUE(plans.contains(order[k])) << "run " << i << ", size " << order[k];
    most = std::max(most, plans.size()), dropped += order.size() - plans.size();
    order.resize(plans.size());
  }
  EXPECT_GE(most, 3U);
  EXPECT_LT(most, 8U);
  EXPECT_GT(dropped, 8U);
}

TEST(ProgramMemory, LastPlanOfEachSegmentIsAlwaysKept) {
  Rows rows(0);
  for (const int64_t n : {100, 200, 200, 100}) rows.run(n);
  EXPECT_EQ(rows.plans(), (std::map<int64_t, int64_t>{{100, 1}}));
}

TEST(ProgramMemory, DefaultLimitIsOneGibibyte) { EXPECT_EQ(Session::Options().plan_cache_bytes, int64_t{1} << 30); }

}  // namespace
}  // namespace kilter
