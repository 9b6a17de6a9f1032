// Maps nodes of the model to the layers that run them, however passes have changed the nodes.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "compile/compile.h"

namespace kilter {
namespace {

/// The layers that run a node of the model, as "a, b"; "-" if no layer with a different name runs it.
std::string layers_of(const Compiled& compiled, const std::string& node) {
  const auto found = compiled.layers_of_nodes.find(node);
  return found == compiled.layers_of_nodes.end() ? "-" : fmt::format("{}", fmt::join(found->second, ", "));
}

Compiled lowered(std::string_view graph) {
  CompileOptions options;
  options.target = parse_target("x86-64-v3");
  options.contents.code = false;
  return compile_graph(parse_graph(graph), options);
}

TEST(Origins, RenamedFusedAndFoldedNodesAreTraced) {
  const Compiled c = lowered(R"(graph "g" {
    input %x: f32[1,16,8,8]
    const %w: f32[16,16,3,3]#0
    const %s: f32[16]#0
    const %m: f32[16,24]#0
    const %k: f32[24]#0
    %c: f32[1,16,8,8] = Conv@11 "conv" {pads=[1, 1, 1, 1]}(%x, %w)
    %n: f32[1,16,8,8] = BatchNormalization@15 "norm"(%c, %s, %s, %s, %s)
    %r: f32[1,16,8,8] = Relu@14 "relu"(%n)
    %p: f32[1,16,1,1] = GlobalAveragePool@1 "pool"(%r)
    %f: f32[1,16] = Flatten@13 "flat"(%p)
    %y: f32[1,24] = Gemm@13 "fc"(%f, %m, %k)
    output "y" %y
  })");
  EXPECT_EQ(layers_of(c, "conv"), "-");
  EXPECT_EQ(layers_of(c, "norm"), "conv");
  EXPECT_EQ(layers_of(c, "relu"), "conv");
  EXPECT_EQ(layers_of(c, "pool"), "-");
  EXPECT_EQ(layers_of(c, "fc"), "-");
  EXPECT_EQ(layers_of(c, "nothing"), "-");
}

TEST(Origins, NodesOfRecognisedPatternsAreTraced) {
  const Compiled c = lowered(R"(graph "g" {
    input %q: f32[1,2,5,8]
    input %k: f32[1,2,7,8]
    input %v: f32[1,2,7,6]
    const %one: f32[](1)
    const %two: f32[](2)
    %d: f32[] = Mul@14 "double"(%one, %two)
    %t: f32[1,2,8,7] = Transpose@13 "turn" {perm=[0, 1, 3, 2]}(%k)
    %s: f32[1,2,5,7] = MatMul@13 "scores"(%q, %t)
    %e: f32[1,2,5,7] = Mul@14 "scale"(%s, %d)
    %p: f32[1,2,5,7] = Softmax@13 "shares" {axis=-1}(%e)
    %y: f32[1,2,5,6] = MatMul@13 "mix"(%p, %v)
    output "y" %y
  })");
  for (const char* node : {"turn", "scores", "scale", "shares"}) EXPECT_EQ(layers_of(c, node), "mix") << node;
  EXPECT_EQ(layers_of(c, "mix"), "-");
  EXPECT_EQ(layers_of(c, "double"), "-") << "it was evaluated while compiling";
}

TEST(Origins, SplitNodeHasSeveralLayers) {
  const Compiled c = lowered(R"(graph "g" {
    input %x: f32[3,50,40]
    %y: f32[3,50,40] = Softmax@13 "soft" {axis=1}(%x)
    output "y" %y
  })");
  EXPECT_EQ(layers_of(c, "soft"), "soft.in, soft, soft.out");
}

TEST(Origins, ModelNamesMayLookGenerated) {
  const Compiled c = lowered(R"(graph "g" {
    input %x: f32[4,16]
    const %m: f32[16,16]#0
    const %n: f32[16,16]#1
    %a: f32[4,16] = Gemm@13 "fc"(%x, %m)
    %b: f32[4,16] = Relu@14 "fc_1"(%a)
    %y: f32[4,16] = Gemm@13 "last"(%b, %n)
    output "y" %y
  })");
  EXPECT_EQ(layers_of(c, "fc"), "-");
  EXPECT_EQ(layers_of(c, "fc_1"), "fc");
  EXPECT_EQ(layers_of(c, "last"), "-");
}

}  // namespace
}  // namespace kilter
