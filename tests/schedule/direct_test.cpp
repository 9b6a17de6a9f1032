#include <gtest/gtest.h>

#include <algorithm>

#include "compile/placed_tasks.h"
#include "loop/target.h"
#include "ops/builder.h"
#include "schedule/problem.h"
#include "schedule/templates.h"

namespace kilter {
namespace {

/// The loops of a problem's convolution under the default schedule of znver4, without prefetched weights.
std::string loops(Graph graph, const std::string& operators) {
  const TargetLimits limits = parse_target("znver4").limits;
  const PlacedTasks placed = place_tasks(std::move(graph), limits);
  const auto task = std::ranges::find(placed.tasks, operators, &Task::ops);
  if (task == placed.tasks.end()) return "no such task";
  Answer<Schedule> schedule = conv2d_direct.pick(*task, limits);
  for (auto& [name, value] : std::get<Schedule>(schedule).knobs) value = name == "prefetch" ? 0 : value;
  Answer<Lowered> lowered = conv2d_direct.lower(*task, std::get<Schedule>(schedule), limits);
  return print(std::get<Lowered>(lowered).stages.front().func);
}

int64_t count(const std::string& text, const std::string& what) {
  int64_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(DirectConvolution, PrefetchesWhatIsAddedABitWithEachBlockOfChannels) {
  const Graph added = parse_problem("conv2d n1 c64 h14 w14 k32 r1 s1 f32 +bias +add+relu").graph;
  const Graph plain = parse_problem("conv2d n1 c64 h14 w14 k32 r1 s1 f32 +bias +relu").graph;
  const std::string residual = loops(added, "Conv+Add+Relu");
  // A tile of 14 pixels and 2 vectors over 4 blocks of channels: 4 pixels, so 8 lines, with each block.
  EXPECT_EQ(count(residual, "prefetch"), 8) << residual;
  EXPECT_EQ(count(loops(plain, "Conv+Relu"), "prefetch"), 0);
}

TEST(DirectConvolution, ComputesHalfAVectorWhereTheUnitsAreHalfAsWide) {
  // 24 channels are a vector and a half; the other half of the second is written as zeros.
  const std::string half = loops(parse_problem("conv2d n1 c64 h14 w14 k24 r1 s1 f32 +bias +relu").graph, "Conv+Relu");
  EXPECT_EQ(count(half, "fma("), 4 * 2 * 14) << half;
  EXPECT_EQ(count(half, "], 8)"), 4 * 14) << half;  // pixels spread over half a vector
  EXPECT_EQ(count(half, "= 0:f32x8\n"), 14) << half;
  const std::string whole = loops(parse_problem("conv2d n1 c64 h14 w14 k25 r1 s1 f32 +bias +relu").graph, "Conv+Relu");
  EXPECT_EQ(count(whole, "], 8)"), 0) << whole;
}

}  // namespace
}  // namespace kilter
