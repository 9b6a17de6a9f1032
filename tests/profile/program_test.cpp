// Profiles of networks that run as programs.
#include "profile/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../onnx/loop_model.h"
#include "compile/memory_model.h"
#include "profile/table.h"

namespace kilter::profile {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ProgramProfile : public testing::Test {
 protected:
  ProgramProfile() : model_(onnx::doubling_loop().parse()) {
    Session::Options options;
    options.compile.target = parse_target("native");
    options.threads = 1;
    session_ = Session::open(model_.name(), options);
  }

  Profile profile(int64_t iterations) {
    Options options;
    options.seconds = 0.1;
    return collect_program(*session_, {{"n", Tensor::scalar(iterations)}, {"x", Tensor::of<float>({2}, {-1, 3})}},
                           options);
  }

 private:
  MemoryModel model_;
  std::unique_ptr<Session> session_;
};

TEST_F(ProgramProfile, HasRowsForInstructionsLayersAndLoops) {
  std::vector<std::string> rows;
  const Profile p = profile(30);
  for (const Row& r : p.rows)
    rows.push_back(fmt::format("{} {}|{}|{}|{}|{}", r.depth, name(r.kind), r.name, r.ops, r.count, r.iterations));
  EXPECT_THAT(rows, ElementsAre("0 segment|segment 0|Abs|1|0", "1 layer|abs|Abs|1|0",
                                "0 control|Loop 'loop'|ai.onnx:Loop@17|1|30", "1 segment|segment 1|Identity+Add|30|0",
                                "2 layer|twice|Add|30|0", "2 layout change|go_on.output|Relayout|30|0",
                                "0 gap|segments: choosing plans, allocating memory||31|0",
                                "0 gap|between instructions||1|0", "0 gap|before and after the program||1|0"));
  EXPECT_THAT(p.rows[0].shapes, HasSubstr("f32[2]: compiled"));
  EXPECT_THAT(table(p, {}), HasSubstr("Loop 'loop' (30 iterations)"));
  EXPECT_THAT(table(p, {}), HasSubstr("\n  segment 1 "));
  EXPECT_THAT(table(p, {}), HasSubstr("\n    twice "));
}

TEST_F(ProgramProfile, LayersHaveTheirWorkAndSchedules) {
  const Profile p = profile(30);
  const auto layer = std::ranges::find(p.rows, "twice", &Row::name);
  ASSERT_NE(layer, p.rows.end());
  EXPECT_EQ(layer->flops, 30 * 2) << "two elements in each iteration";
  EXPECT_EQ(layer->busy_ms.size(), 1U);
  EXPECT_THAT(layer->schedule, HasSubstr("map"));
  EXPECT_GT(layer->bound.ms, 0);
  const auto segment = std::ranges::find(p.rows, "segment 1", &Row::name);
  EXPECT_GE(segment->whole_ms, segment->time.mean + layer->time.mean);
}

TEST_F(ProgramProfile, RowsAddUpToTheRun) {
  const Profile p = profile(30);
  double sum = 0, percent = 0;
  for (const Row& r : p.rows) {
    sum += r.time.mean, percent += r.percent;
    EXPECT_GE(r.time.mean, 0) << r.name;
  }
  EXPECT_NEAR(sum, p.sum_ms, 1e-9);
  EXPECT_NEAR(p.sum_ms, p.kernels_ms + p.barriers_ms + p.gaps_ms, 1e-9);
  EXPECT_NEAR(percent, 100, 1e-6);
  EXPECT_NEAR(p.sum_ms, p.total_ms, 1e-6 * p.total_ms);
  EXPECT_NEAR(p.rows[2].whole_ms, p.rows[2].time.mean + p.rows[3].whole_ms, 1e-9);
  EXPECT_EQ(p.kept, p.passes - 2 * (p.passes / 4));
}

TEST_F(ProgramProfile, OmitsInstructionsThatDidNotRun) {
  const Profile p = profile(0);
  EXPECT_EQ(p.rows.size(), 6U);
  for (const Event& event : p.timeline) EXPECT_LT(event.row, p.rows.size());
  EXPECT_EQ(to_json(p)["program"], true);
}

TEST_F(ProgramProfile, TheTimelineIsNested) {
  const Profile p = profile(2);
  // Layers come before the segments that they belong to: segment 0, segment 1 twice, then the loop around them.
  std::vector<std::string> names;
  for (const Event& event : p.timeline) names.push_back(p.rows[event.row].name);
  EXPECT_THAT(names, ElementsAre("abs", "segment 0", "twice", "go_on.output", "segment 1", "twice", "go_on.output",
                                 "segment 1", "Loop 'loop'"));
  const Event &loop = p.timeline.back(), &segment = p.timeline[4], &layer = p.timeline[2];
  EXPECT_LE(loop.begin_us, segment.begin_us);
  EXPECT_GE(loop.end_us, p.timeline[7].end_us);
  EXPECT_LE(segment.begin_us, layer.begin_us);
  EXPECT_GE(segment.end_us, layer.end_us);
}

}  // namespace
}  // namespace kilter::profile
