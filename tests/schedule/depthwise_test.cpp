#include <gtest/gtest.h>

#include <algorithm>

#include "compile/placed_tasks.h"
#include "schedule/problem/problem.h"
#include "schedule/templates/templates.h"
#include "target/target.h"

namespace kilter {
namespace {

/// Returns how often a text occurs in the loops of a depthwise convolution under znver4's default schedule.
int64_t count(const std::string& problem, const std::string& what) {
  const CpuLimits limits = parse_target("znver4").limits;
  const PlacedTasks placed = place_tasks(parse_problem(problem).graph, limits);
  const auto task = std::ranges::find_if(placed.tasks, [](const Task& t) { return t.node().op->name == "Conv"; });
  if (task == placed.tasks.end()) return -1;
  const Schedule schedule = *conv2d_depthwise.pick(*task, limits);
  const std::string text = print(conv2d_depthwise.lower(*task, schedule, limits)->stages.front().func);
  int64_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(DepthwiseConvolution, StridedImagesBeyondL2HaveSmallTiles) {
  const auto tile = [](const std::string& line) { return count(line + " f32", "reg acc"); };
  EXPECT_EQ(tile("conv2d n1 c64 h112 w112 k64 r3 s3 g64 stride2,2 pad1"), 4);
  EXPECT_EQ(tile("conv2d n1 c64 h112 w112 k64 r3 s3 g64 pad1"), 14) << "arithmetic is the bound";
  EXPECT_EQ(tile("conv2d n1 c64 h112 w112 k64 r5 s5 g64 stride2,2 pad2"), 14) << "arithmetic is the bound";
  EXPECT_EQ(tile("conv2d n1 c64 h28 w28 k64 r3 s3 g64 stride2,2 pad1"), 14) << "L2 holds it";
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
