// Convolutions with few output channels: what their tiles read, and where they are the default.
#include <gtest/gtest.h>

#include <algorithm>

#include "../base/error_of.h"
#include "../search/tasks.h"
#include "compile/compile.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

using tune::TaskOf;

/// The loops of a convolution under a schedule of conv2d_pixels.
std::string loops(const std::string& problem, const std::string& schedule, std::string_view target = "znver5") {
  const TaskOf t(problem, target);
  const auto lowered = conv2d_pixels.lower(*t.task, parse_schedule(schedule), t.limits);
  return lowered ? print(lowered->stages.front().func) : lowered.rejected().check;
}

int64_t count(const std::string& text, const std::string& what) {
  int64_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(PixelConvolution, RowsOfATileShareTheVectorsThatTheyRead) {
  // 4 output rows of 2 vectors read 6 image rows, and each vector is multiplied by the weights of up to 3 kernel rows.
  const std::string tile =
      loops("conv2d n1 c1 h32 w32 k1 r3 s3 pad1 f32", "conv2d_pixels sums=0 outputs=1 rows=4 tile=2");
  EXPECT_EQ(count(tile, "reg acc"), 8) << tile;
  EXPECT_EQ(count(tile, "let p = x0["), 1) << tile;
  EXPECT_EQ(count(tile, "= x0["), 6 * 2) << tile;
  EXPECT_EQ(count(tile, "fma("), 4 * 2 * 3) << tile;
}

TEST(PixelConvolution, LongKernelsShareVectorsOfARow) {
  // A kernel of 64 taps is 4 rows of 16: 4 vectors of pixels read 7 vectors of the image for each of the 16 steps.
  const std::string tile = loops("conv2d n1 c1 h1 w4159 k1 r1 s64 f32", "conv2d_pixels sums=0 outputs=1 rows=1 tile=4");
  EXPECT_EQ(count(tile, "= x0["), 7) << tile;
  EXPECT_EQ(count(tile, "fma("), 4 * 4) << tile;
  EXPECT_EQ(count(tile, "in [0, 16)"), 1) << tile;
}

TEST(PixelConvolution, LanesOfAFullVectorOfSumsAreAddedTogether) {
  // Adding the lanes of 16 vectors takes 15 additions, and the result is one vector of 16 pixels.
  const std::string tile = loops("conv2d n1 c32 h16 w16 k1 r1 s1 f32", "conv2d_pixels sums=1 outputs=1 rows=1 tile=16");
  EXPECT_EQ(count(tile, "reg acc"), 16) << tile;
  EXPECT_EQ(count(tile, "let sum"), 15) << tile;
  EXPECT_EQ(count(tile, "] = "), 1) << tile;
  // With 4 pixels and 2 outputs, 8 vectors are added in 7 steps, and one step halves the result.
  const std::string two = loops("conv2d n1 c32 h16 w16 k2 r1 s1 f32", "conv2d_pixels sums=1 outputs=2 rows=1 tile=4");
  EXPECT_EQ(count(two, "let sum"), 8) << two;
  EXPECT_EQ(count(two, "] = "), 2) << two;
}

TEST(PixelConvolution, TilesFitInRegisters) {
  const std::string problem = "conv2d n1 c16 h32 w32 k8 r3 s3 pad1 f32";
  EXPECT_EQ(loops(problem, "conv2d_pixels sums=1 outputs=8 rows=1 tile=4"),
            "tile of sums (outputs x rows x 1, 2, 4, ... pixels)");
  EXPECT_EQ(loops(problem, "conv2d_pixels sums=1 outputs=3 rows=1 tile=4"), "conv2d_pixels knob outputs");
  EXPECT_EQ(count(loops(problem, "conv2d_pixels sums=1 outputs=4 rows=1 tile=4"), "reg acc"), 16);
}

/// The template that runs a convolution by default.
std::string_view chosen(const std::string& problem, std::string_view target) {
  const TaskOf t(problem, target);
  return find_template(choose(*t.task, t.limits).schedule.name)->name;
}

TEST(PixelConvolution, IsTheDefaultForFewOutputChannels) {
  for (const std::string target : {"x86-64-v2", "x86-64-v3", "znver4", "znver5", "neoverse-n1", "neoverse-v1"}) {
    EXPECT_EQ(chosen("conv2d n1 c1 h64 w64 k1 r5 s5 pad2 f32", target), "conv2d_pixels") << target;
    EXPECT_EQ(chosen("conv2d n1 c32 h64 w64 k1 r3 s3 pad1 f32", target), "conv2d_pixels") << target;
    EXPECT_EQ(chosen("conv2d n1 c3 h64 w64 k16 r3 s3 pad1 f32", target), "conv2d_direct") << target;
  }
  EXPECT_EQ(chosen("conv2d n1 c3 h64 w64 k8 r3 s3 pad1 f32", "znver5"), "conv2d_pixels");
  EXPECT_EQ(chosen("conv2d n1 c3 h64 w64 k8 r3 s3 pad1 f32", "x86-64-v3"), "conv2d_direct");
  EXPECT_EQ(chosen("conv2d n1 c3 h7 w7 k1 r3 s3 pad1 f32", "znver5"), "conv2d_direct") << "a small image";
  EXPECT_EQ(chosen("conv2d n1 c4 h64 w64 k4 r3 s3 g4 pad1 f32", "znver5"), "conv2d_depthwise") << "groups";
}

TEST(PixelConvolution, TooLargeTilesAreRefused) {
  CompileOptions options;
  options.target = parse_target("znver5");
  options.choices["conv"].schedule = parse_schedule("conv2d_pixels sums=0 outputs=1 rows=8 tile=8");
  Problem problem = parse_problem("conv2d n1 c1 h64 w128 k1 r3 s3 pad1 f32");
  options.choices[problem.anchor] = options.choices["conv"];
  EXPECT_EQ(error_of([&] { compile_graph(std::move(problem.graph), options); }),
            "--schedule " + problem.anchor +
                ": 'conv2d_pixels sums=0 outputs=1 rows=8 tile=8' does not apply: tile of pixels (outputs x rows x "
                "vectors): limit one that fits in 32 registers, got 1 x 8 x 8");
}

}  // namespace
}  // namespace kilter
