// GroupNormalization as exporters write it, and factors around it: they become one node if it has the same result.
#include <gtest/gtest.h>

#include "pass_runner.h"

namespace kilter {
namespace {

/// The exported form for 4 channels in 2 groups, with one part of its text replaced.
std::string exported(std::string_view from = "", std::string_view to = "") {
  return with(R"(graph "g" {
    input %x: f32[1,4,2,3]
    const %rows: i64[3](0, 2, -1)
    const %whole: i64[4](1, 4, 2, 3)
    const %ones: f32[2](1, 2)
    const %zeros: f32[2](0, 1)
    const %w: f32[4,1,1](1, 2, 3, 4)
    const %v: f32[1,4,1,1](5, 6, 7, 8)
    %a: f32[1,2,12] = Reshape@17 "a"(%x, %rows)
    %b: f32[1,2,12] = InstanceNormalization@6 "b" {epsilon=0.5}(%a, %ones, %zeros)
    %c: f32[1,4,2,3] = Reshape@17 "c"(%b, %whole)
    %d: f32[1,4,2,3] = Mul@17 "d"(%c, %w)
    %e: f32[1,4,2,3] = Add@17 "e"(%v, %d)
    output "e" %e
  })",
              from, to);
}

TEST(GroupNorm, ExportedFormBecomesOneNode) {
  EXPECT_EQ(after(recognise_patterns, exported()),
            "%e: f32[1,4,2,3] = GroupNormalization@28 \"e_1\" {epsilon=0.5, num_groups=2}(%x, %c_1.scale, %d_1.bias)\n"
            "output \"e\" %e\n");
  Graph graph = parse_graph(exported());
  EXPECT_EQ(run_pass(recognise_patterns, graph), 3);
  const Node& norm = graph.node(graph.order().front());
  EXPECT_TRUE(graph.value(norm.inputs[1]).constant->same(Tensor::of<float>({4}, {1, 2, 6, 8})));
  EXPECT_TRUE(graph.value(norm.inputs[2]).constant->same(Tensor::of<float>({4}, {5, 6, 10, 12})));
}

TEST(GroupNorm, ScaleAndShiftMayBeMissingOrOneNumber) {
  EXPECT_EQ(after(recognise_patterns, R"(graph "g" {
    input %x: f32[2,6,5]
    const %rows: i64[4](2, 3, 2, 5)
    const %whole: i64[3](2, 6, 5)
    const %s: f32[3](1, 2, 3)
    const %t: f32[3](4, 5, 6)
    const %two: f32[](2)
    %a: f32[2,3,2,5] = Reshape@17 "a"(%x, %rows)
    %b: f32[2,3,2,5] = InstanceNormalization@6 "b"(%a, %s, %t)
    %c: f32[2,6,5] = Reshape@17 "c"(%b, %whole)
    %d: f32[2,6,5] = Mul@17 "d"(%two, %c)
    output "d" %d
  })"),
            "%d: f32[2,6,5] = GroupNormalization@28 \"d_1\" {epsilon=1e-05, num_groups=3}(%x, %c_1.scale, %c_1.bias)\n"
            "output \"d\" %d\n");
}

TEST(GroupNorm, NearMissesAreUnchanged) {
  const auto first_two_stay = [](std::string_view from, std::string_view to) {
    const std::string text = after(recognise_patterns, exported(from, to));
    EXPECT_NE(text.find("InstanceNormalization"), std::string::npos) << from << " -> " << to << "\n" << text;
  };
  first_two_stay("output \"e\" %e", "output \"e\" %e\n    output \"b\" %b");  // the rows have another reader
  first_two_stay("const %ones: f32[2](1, 2)", "input %ones: f32[2]");
  first_two_stay("const %zeros: f32[2](0, 1)", "input %zeros: f32[2]");
}

TEST(GroupNorm, OtherFactorsAreUnchanged) {
  for (const auto& [from, to] : std::vector<std::pair<std::string_view, std::string_view>>{
           {"const %w: f32[4,1,1](1, 2, 3, 4)", "const %w: f32[1,2,3](1, 2, 3, 4, 5, 6)"},
           {"const %w: f32[4,1,1](1, 2, 3, 4)", "input %w: f32[4,1,1]"},
           {"output \"e\" %e", "output \"e\" %e\n    output \"c\" %c"}}) {
    const std::string text = after(recognise_patterns, exported(from, to));
    EXPECT_NE(text.find("GroupNormalization"), std::string::npos) << text;
    EXPECT_NE(text.find("Mul@17 \"d\""), std::string::npos) << from << " -> " << to << "\n" << text;
  }
}

TEST(GroupNorm, OneScalePerGroupIsUnchanged) {
  EXPECT_EQ(unchanged(recognise_patterns, R"(graph "g" {
    input %x: f32[1,4,2,3]
    const %s: f32[2](1, 2)
    const %t: f32[2](0, 1)
    const %w: f32[4,1,1](1, 2, 3, 4)
    %a: f32[1,4,2,3] = GroupNormalization@18 "a" {num_groups=2}(%x, %s, %t)
    %b: f32[1,4,2,3] = Mul@18 "b"(%a, %w)
    output "b" %b
  })"),
            "");
}

}  // namespace
}  // namespace kilter
