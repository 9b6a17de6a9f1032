#include <gtest/gtest.h>

#include <algorithm>

#include "compile/placed_tasks.h"
#include "loop/target.h"
#include "schedule/problem.h"
#include "schedule/templates.h"

namespace kilter {
namespace {

/// How often the loops of a depthwise convolution have a word, under the default schedule of znver4.
int64_t count(const std::string& problem, const std::string& what) {
  const TargetLimits limits = parse_target("znver4").limits;
  const PlacedTasks placed = place_tasks(parse_problem(problem).graph, limits);
  const auto task = std::ranges::find_if(placed.tasks, [](const Task& t) { return t.node().op->name == "Conv"; });
  if (task == placed.tasks.end()) return -1;
  const Answer<Schedule> schedule = conv2d_depthwise.pick(*task, limits);
  const Answer<Lowered> lowered = conv2d_depthwise.lower(*task, std::get<Schedule>(schedule), limits);
  const std::string text = print(std::get<Lowered>(lowered).stages.front().func);
  int64_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

constexpr int64_t kWeights = 2;  ///< lines prefetched of the block of weights that comes next, and its bias

TEST(DepthwiseConvolution, PrefetchesRowsOfImagesThatItStepsOverFromBeyondL2) {
  const auto prefetched = [](const std::string& line) { return count(line + " f32 +bias", "prefetch") - kWeights; };
  // 14 pixels at stride 2 read 28 in each of two new rows: three times ten lines of a row, beside each row of taps.
  EXPECT_EQ(prefetched("conv2d n1 c64 h112 w112 k64 r3 s3 g64 stride2,2 pad1"), 2 * 3 * 10);
  EXPECT_EQ(prefetched("conv2d n1 c64 h112 w112 k64 r3 s3 g64 pad1"), 0) << "arithmetic hides it";
  EXPECT_EQ(prefetched("conv2d n1 c64 h28 w28 k64 r3 s3 g64 stride2,2 pad1"), 0) << "L2 holds it";
}

TEST(DepthwiseConvolution, MeansOfRowsAreSummedInRegisters) {
  const std::string conv = "conv2d n1 c32 h8 w20 k32 r3 s3 g32 pad1 f32 +relu";
  const std::string means = conv + "+reducemean(i64[1]=3 keepdims=1)";
  EXPECT_EQ(count(means, "set sum = sum + "), 10) << "a tile of 10 pixels";
  EXPECT_EQ(count(means, "= sum / 20:f32x16"), 1) << "once a row";
  EXPECT_EQ(count(conv, "sum"), 0);
}

}  // namespace
}  // namespace kilter
