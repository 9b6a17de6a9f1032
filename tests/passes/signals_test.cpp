#include <gtest/gtest.h>

#include "pass_runner.h"

namespace kilter {
namespace {

/// The canonical form of two convolutions of signals. The nodes `between` compute %c from %b.
std::string chain(std::string_view between) {
  return fmt::format(R"(graph "g" {{
    input %x: f32[1,4,1,6]
    const %w: f32[4,4,1,3]#0
    const %three: i64[3](1, 4, 6)
    const %four: i64[4](1, 4, 1, 6)
    %a: f32[1,4,1,6] = Conv@11 "a" {{pads=[0, 1, 0, 1]}}(%x, %w)
    %b: f32[1,4,6] = Reshape@14 "b"(%a, %three)
    {}
    %d: f32[1,4,1,6] = Reshape@14 "d"(%c, %four)
    %e: f32[1,4,1,6] = Conv@11 "e" {{pads=[0, 1, 0, 1]}}(%d, %w)
    output "e" %e
  }})",
                     between);
}

constexpr std::string_view kFirst = "%a: f32[1,4,1,6] = Conv@11 \"a\" {pads=[0, 1, 0, 1]}(%x, %w)\n";
constexpr std::string_view kLast = "%e: f32[1,4,1,6] = Conv@11 \"e\" {pads=[0, 1, 0, 1]}(%c, %w)\noutput \"e\" %e\n";

TEST(SignalsAsImages, ElementwiseNodesRunOverImages) {
  EXPECT_EQ(after(signals_as_images, chain("%c: f32[1,4,6] = Relu@14 \"c\"(%b)")),
            fmt::format("{}%c: f32[1,4,1,6] = Relu@14 \"c_1\"(%a)\n{}", kFirst, kLast));
}

TEST(SignalsAsImages, HighRankOperandsGetARow) {
  Graph graph = parse_graph(chain(R"(const %k: f32[4,1](1, 2, 3, 4)
    const %t: f32[6](1, 2, 3, 4, 5, 6)
    const %s: f32[](2)
    input %y: f32[1,4,6]
    %p: f32[1,4,6] = Mul@14 "p"(%b, %k)
    %q: f32[1,4,6] = Add@14 "q"(%t, %p)
    %r: f32[1,4,6] = Add@14 "r"(%q, %s)
    %c: f32[1,4,6] = Add@14 "c"(%r, %y))"));
  run_pass(signals_as_images, graph);
  EXPECT_EQ(nodes_text(graph),
            fmt::format("{}%p: f32[1,4,1,6] = Mul@14 \"p_1\"(%a, %k_1)\n"
                        "%q: f32[1,4,1,6] = Add@14 \"q_1\"(%t, %p)\n"
                        "%r: f32[1,4,1,6] = Add@14 \"r_1\"(%q, %s)\n"
                        "%y.image: f32[1,4,1,6] = Reshape@28 \"y.image\" {{allowzero=1}}(%y, %const_3)\n"
                        "%c: f32[1,4,1,6] = Add@14 \"c_1\"(%r, %y.image)\n{}",
                        kFirst, kLast));
  EXPECT_EQ(graph.type(graph.find_value("k_1")).shape, (Shape{4, 1, 1}));
}

TEST(SignalsAsImages, ConcatenationsAlongTimeAndMeansOverIt) {
  EXPECT_EQ(after(signals_as_images, R"(graph "g" {
    input %x: f32[1,4,1,6]
    const %three: i64[3](1, 4, 6)
    const %last: i64[1](-1)
    %a: f32[1,4,1,6] = MaxPool@12 "a" {kernel_shape=[1, 1]}(%x)
    %b: f32[1,4,6] = Reshape@14 "b"(%a, %three)
    %c: f32[1,4,12] = Concat@13 "c" {axis=-1}(%b, %b)
    %d: f32[1,4,1] = ReduceMean@18 "d"(%c, %last)
    %e: f32[1,4,12] = Mul@14 "e"(%c, %d)
    output "e" %e
  })"),
            "%a: f32[1,4,1,6] = MaxPool@12 \"a\" {kernel_shape=[1, 1]}(%x)\n"
            "%c: f32[1,4,1,12] = Concat@13 \"c_1\" {axis=3}(%a, %a)\n"
            "%d: f32[1,4,1,1] = ReduceMean@28 \"d_1\" {keepdims=1}(%c, %d.axes)\n"
            "%e_1: f32[1,4,1,12] = Mul@14 \"e_1\"(%c, %d)\n"
            "%e: f32[1,4,12] = Reshape@28 \"e.out\" {allowzero=1}(%e_1, %const_2)\n"
            "output \"e\" %e\n");
}

TEST(SignalsAsImages, ChannelSlicesRunOverImages) {
  EXPECT_EQ(
      after(signals_as_images, chain("%p: f32[1,2,6], %q: f32[1,2,6] = Split@18 \"s\" {axis=1, num_outputs=2}(%b)\n"
                                     "    %c: f32[1,4,6] = Concat@13 \"c\" {axis=1}(%q, %p)")),
      fmt::format("{}%p: f32[1,2,1,6], %q: f32[1,2,1,6] = Split@18 \"s_1\" {{axis=1, num_outputs=2}}(%a)\n"
                  "%c: f32[1,4,1,6] = Concat@13 \"c_1\" {{axis=1}}(%q, %p)\n{}",
                  kFirst, kLast));
  EXPECT_EQ(
      after(signals_as_images, chain("const %zero: i64[1](0)\n    const %two: i64[1](2)\n    const %dim: i64[1](-2)\n"
                                     "    %p: f32[1,2,6] = Slice@13 \"p\"(%b, %zero, %two, %dim)\n"
                                     "    %c: f32[1,4,6] = Concat@13 \"c\" {axis=1}(%p, %p)")),
      fmt::format("{}%p: f32[1,2,1,6] = Slice@13 \"p_1\"(%a, %zero, %two, %p.axes)\n"
                  "%c: f32[1,4,1,6] = Concat@13 \"c_1\" {{axis=1}}(%p, %p)\n{}",
                  kFirst, kLast));
}

TEST(SignalsAsImages, OtherReadersOfAValueGetTheSignal) {
  EXPECT_EQ(after(signals_as_images, chain("%c: f32[1,4,6] = Relu@14 \"c\"(%b)\n"
                                           "    %t: f32[1,6,4] = Transpose@13 \"t\" {perm=[0, 2, 1]}(%c)\n"
                                           "    output \"t\" %t")),
            fmt::format("{}%c_1: f32[1,4,1,6] = Relu@14 \"c_1\"(%a)\n"
                        "%c: f32[1,4,6] = Reshape@28 \"c.out\" {{allowzero=1}}(%c_1, %const)\n"
                        "%t: f32[1,6,4] = Transpose@13 \"t\" {{perm=[0, 2, 1]}}(%c)\n"
                        "%e: f32[1,4,1,6] = Conv@11 \"e\" {{pads=[0, 1, 0, 1]}}(%c_1, %w)\n"
                        "output \"t\" %t\noutput \"e\" %e\n",
                        kFirst));
}

TEST(SignalsAsImages, NodesThatMixTimeOrChannelsAreUnchanged) {
  for (const std::string_view between :
       {"%c: f32[1,4,6] = Softmax@13 \"c\"(%b)",
        "%p: f32[1,4,3], %q: f32[1,4,3] = Split@18 \"s\" {axis=2, num_outputs=2}(%b)\n"
        "    %c: f32[1,4,6] = Concat@13 \"c\" {axis=2}(%q, %p)",
        "input %m: f32[6,6]\n    %c: f32[1,4,6] = MatMul@13 \"c\"(%b, %m)",
        "const %one: i64[1](1)\n    %r: f32[1,1,6] = ReduceMean@18 \"r\"(%b, %one)\n    input %y: f32[1,4,6]\n"
        "    %c: f32[1,4,6] = Add@14 \"c\"(%y, %r)",
        "const %wide: f32[1,1,4,6]#0\n    const %s: i64[3](1, 4, 6)\n    %m: f32[1,1,4,6] = Mul@14 \"m\"(%b, %wide)\n"
        "    %c: f32[1,4,6] = Reshape@14 \"c\"(%m, %s)"}) {
    EXPECT_EQ(unchanged(signals_as_images, chain(between)), "") << between;
  }
}

TEST(SignalsAsImages, SignalsNotFromConvolutionsAreUnchanged) {
  EXPECT_EQ(unchanged(signals_as_images, R"(graph "g" {
    input %x: f32[1,4,1,6]
    const %three: i64[3](1, 4, 6)
    %b: f32[1,4,6] = Reshape@14 "b"(%x, %three)
    %c: f32[1,4,6] = Relu@14 "c"(%b)
    output "c" %c
  })"),
            "");
}

}  // namespace
}  // namespace kilter
