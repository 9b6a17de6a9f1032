// Plans that reuse the cached results of earlier builds equal plans that are built without a cache.
#include "compile/build_cache.h"

#include <gtest/gtest.h>

#include "compile/session.h"
#include "exec/executor.h"
#include "zoo/zoo.h"

namespace kilter {
namespace {

/// Keeps every constant in place and counts its uses.
class CountingSink : public ConstantSink {
 public:
  CountingSink() : memory_(64 << 20) {}
  int64_t add(std::span<const std::byte> bytes) override {
    const int64_t at = top_;
    EXPECT_LE(at + static_cast<int64_t>(bytes.size()), static_cast<int64_t>(memory_.size()));
    std::copy(bytes.begin(), bytes.end(), memory_.begin() + at);
    top_ += (static_cast<int64_t>(bytes.size()) + 127) / 64 * 64;
    ++adds_;
    ++users_[at];
    return at;
  }
  void share(int64_t offset, int64_t) override { EXPECT_GE(++users_.at(offset), 2); }
  void release(int64_t offset) override { EXPECT_GE(--users_.at(offset), 0); }
  const std::byte* data() const override { return memory_.data(); }
  int64_t size() const override { return top_; }

  int64_t adds() const { return adds_; }
  int64_t used() const {
    int64_t sum = 0;
    for (const auto& [offset, users] : users_) sum += users;
    return sum;
  }

 private:
  std::vector<std::byte> memory_;
  std::map<int64_t, int64_t> users_;
  int64_t top_ = 0, adds_ = 0;
};

std::vector<Tensor> run(const Plan& plan, const std::vector<Tensor>& inputs) {
  Loaded loaded;
  loaded.compiled.plan = plan;
  loaded.program = std::make_shared<const Program>(plan);
  loaded.instance = std::make_unique<Instance>(loaded.program, std::make_shared<ThreadPool>(1));
  return run_plan(loaded, inputs);
}

class Cached : public testing::Test {
 protected:
  Cached() : graph_(zoo::build("squeezenet1_1", {.size = 64, .classes = 10})) {
    options_.target = parse_target("native");
    passed_ = run_passes(graph_, options_);
    inputs_.push_back(random_input("input", DType::f32, {1, 3, 64, 64}));
    for (const Step& step : compile_passed(passed_, options_).plan.steps) {
      if (step.schedule.starts_with("conv2d_direct")) convs_.push_back({step.name, parse_schedule(step.schedule)});
    }
  }
  static Schedule with_knob(Schedule s, std::string_view name, int64_t value) {
    for (auto& [knob, now] : s.knobs) {
      if (knob == name) now = value;
    }
    return s;
  }
  /// The schedule of a convolution, changed to smaller tiles.
  Schedule smaller(size_t conv, int64_t tile) const {
    return with_knob(with_knob(convs_[conv].second, "tile", tile), "rows", 1);
  }

  Graph graph_;
  CompileOptions options_;
  PassedGraph passed_;
  std::vector<Tensor> inputs_;
  std::vector<std::pair<std::string, Schedule>> convs_;
};

TEST_F(Cached, ConstantsArePackedOnceWhenAllChoicesAreFinal) {
  const auto adds = [&](const CompileOptions& how) {
    CountingSink sink;
    BuildCache cache(sink);
    CompileOptions with = how;
    with.cache = &cache;
    compile_passed(passed_, with);
    return sink.adds();
  };
  const int64_t once = adds(options_);
  EXPECT_GT(once, 0);
  CompileOptions look = options_;
  look.contents.code = false;
  EXPECT_EQ(adds(look), 0);
  const Compiled fast = compile_passed(passed_, options_);
  CompileOptions tight = options_;  // some schedules are replaced with schedules that have smaller weights
  tight.budget.memory = (fast.weight_bytes + fast.plan.arena_bytes) * 19 / 20;
  ASSERT_FALSE(compile_passed(passed_, tight).slimmed.empty());
  EXPECT_LE(adds(tight), once);
}

TEST_F(Cached, PlansAreTheSameAsWithoutCache) {
  CountingSink sink;
  BuildCache cache(sink);
  CompileOptions with = options_;
  with.cache = &cache;
  for (const int64_t tile : {0, 3, 5, 3, 0}) {
    CompileOptions plain = options_;
    if (tile > 0) plain.choices[convs_[1].first].schedule = smaller(1, tile);
    with.choices = plain.choices;
    const Plan a = compile_passed(passed_, plain).plan, b = compile_passed(passed_, with).plan;
    ASSERT_EQ(a.steps.size(), b.steps.size());
    for (size_t s = 0; s < a.steps.size(); ++s) {
      EXPECT_EQ(a.steps[s].schedule, b.steps[s].schedule);
      EXPECT_EQ(a.steps[s].key, b.steps[s].key);
    }
    EXPECT_EQ(a.entries, b.entries);
    EXPECT_EQ(std::vector(a.code, a.code + a.code_bytes), std::vector(b.code, b.code + b.code_bytes));
    EXPECT_EQ(a.arena_bytes, b.arena_bytes);
    EXPECT_EQ(a.scratch_bytes, b.scratch_bytes);
    EXPECT_TRUE(run(a, inputs_)[0].same(run(b, inputs_)[0])) << "tile " << tile;
  }
}

TEST_F(Cached, OnlyNewPartsArePackedAndCompiled) {
  CountingSink sink;
  BuildCache cache(sink);
  CompileOptions with = options_;
  with.cache = &cache;
  compile_passed(passed_, with);
  const int64_t packed = sink.adds();
  const size_t kernels = cache.kernels().size();
  compile_passed(passed_, with);
  EXPECT_EQ(sink.adds(), packed);
  EXPECT_EQ(cache.kernels().size(), kernels);
  with.choices[convs_[1].first].schedule = smaller(1, 3);
  compile_passed(passed_, with);
  EXPECT_EQ(sink.adds(), packed + 1) << "only the bias: a smaller tile needs its weights packed in the same way";
  EXPECT_EQ(cache.kernels().size(), kernels + 1);
  ASSERT_NE(convs_[2].second.knob("vectors"), 1);
  with.choices[convs_[2].first].schedule = with_knob(smaller(2, 3), "vectors", 1);
  compile_passed(passed_, with);
  EXPECT_EQ(sink.adds(), packed + 3) << "weights and bias of another layer";
}

TEST_F(Cached, UnusedPartsAreReleased) {
  CountingSink sink;
  {
    BuildCache cache(sink, 1);
    CompileOptions with = options_;
    with.cache = &cache;
    compile_passed(passed_, with);
    const int64_t used = sink.used();
    for (int64_t tile = 2; tile <= 6; ++tile) {  // all tiles fit even in 16 registers
      with.choices[convs_[1].first].schedule = smaller(1, tile);
      compile_passed(passed_, with);
    }
    EXPECT_LE(sink.used(), used + 8);
  }
  EXPECT_EQ(sink.used(), 0) << "the cache is gone";
}

}  // namespace
}  // namespace kilter
