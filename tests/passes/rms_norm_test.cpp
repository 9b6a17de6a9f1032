// RMSNormalization as exporters write it: it becomes one node if the result is the same and no other node reads one of
// its intermediate values.
#include <gtest/gtest.h>

#include "pass_runner.h"

namespace kilter {
namespace {

/// The form that LLaMA exporters write, with one part replaced.
std::string exported(std::string_view from = "", std::string_view to = "") {
  return with(R"(graph "g" {
    input %x: f32[2,3,4]
    const %two: f32[](2)
    const %axes: i64[1](-1)
    const %e: f32[](0.5)
    const %w: f32[4](1, 2, 3, 4)
    %a: f32[2,3,4] = Pow@17 "a"(%x, %two)
    %b: f32[2,3,1] = ReduceMean@18 "b" {keepdims=1}(%a, %axes)
    %c: f32[2,3,1] = Add@17 "c"(%b, %e)
    %d: f32[2,3,1] = Sqrt@17 "d"(%c)
    %r: f32[2,3,1] = Reciprocal@17 "r"(%d)
    %n: f32[2,3,4] = Mul@17 "n"(%x, %r)
    %y: f32[2,3,4] = Mul@17 "y"(%w, %n)
    output "y" %y
  })",
              from, to);
}

constexpr std::string_view kOneNode =
    "%y: f32[2,3,4] = RMSNormalization@28 \"y_1\" {axis=-1, epsilon=0.5}(%x, %w)\noutput \"y\" %y\n";

TEST(RmsNorm, ExportedFormBecomesOneNode) { EXPECT_EQ(after(recognise_patterns, exported()), kOneNode); }

TEST(RmsNorm, OtherFormsAreRecognised) {
  const auto one_node = [](std::string_view from, std::string_view to) {
    EXPECT_EQ(after(recognise_patterns, exported(from, to)), kOneNode) << from << " -> " << to;
  };
  one_node("Pow@17 \"a\"(%x, %two)", "Mul@17 \"a\"(%x, %x)");
  one_node("(%b, %e)", "(%e, %b)");
  one_node("(%x, %r)", "(%r, %x)");
  one_node("(%w, %n)", "(%n, %w)");
  one_node("%r: f32[2,3,1] = Reciprocal@17 \"r\"(%d)\n    %n: f32[2,3,4] = Mul@17 \"n\"(%x, %r)",
           "%n: f32[2,3,4] = Div@17 \"n\"(%x, %d)");
  one_node("const %axes: i64[1](-1)", "const %axes: i64[1](2)");
  one_node("%r: f32[2,3,1] = Reciprocal@17 \"r\"(%d)",
           "const %one: f32[](1)\n    %r: f32[2,3,1] = Div@17 \"r\"(%one, %d)");
}

TEST(RmsNorm, TheWeightMayComeFirst) {
  constexpr std::string_view kLast = "%n: f32[2,3,4] = Mul@17 \"n\"(%x, %r)\n    %y: f32[2,3,4] = Mul@17 \"y\"(%w, %n)";
  EXPECT_EQ(after(recognise_patterns, exported(kLast,
                                               "%n: f32[2,3,4] = Mul@17 \"n\"(%x, %w)\n"
                                               "    %y: f32[2,3,4] = Mul@17 \"y\"(%r, %n)")),
            kOneNode);
  std::string divided = exported(kLast,
                                 "%n: f32[2,3,4] = Mul@17 \"n\"(%w, %x)\n"
                                 "    %y: f32[2,3,4] = Div@17 \"y\"(%n, %d)");
  constexpr std::string_view kInverse = "%r: f32[2,3,1] = Reciprocal@17 \"r\"(%d)";
  divided.replace(divided.find(kInverse), kInverse.size(), "");
  EXPECT_EQ(after(recognise_patterns, divided), kOneNode);
}

TEST(RmsNorm, WeightOfMoreDimensionsIsFlattened) {
  Graph graph = parse_graph(exported("const %w: f32[4](1, 2, 3, 4)", "const %w: f32[1,1,4](1, 2, 3, 4)"));
  EXPECT_EQ(run_pass(recognise_patterns, graph), 1);
  ASSERT_EQ(graph.order().size(), 1U) << print(graph);
  const Node& norm = graph.node(graph.order().front());
  EXPECT_EQ(norm.op->name, "RMSNormalization");
  EXPECT_TRUE(graph.value(norm.inputs[1]).constant->same(Tensor::of<float>({4}, {1, 2, 3, 4})));
}

TEST(RmsNorm, NearMissesAreUnchanged) {
  const auto stays = [](std::string_view from, std::string_view to) {
    EXPECT_EQ(unchanged(recognise_patterns, exported(from, to)), "") << from << " -> " << to;
  };
  stays("const %two: f32[](2)", "const %two: f32[](3)");
  stays("(%x, %two)", "(%two, %x)");
  stays("const %e: f32[](0.5)", "input %e: f32[]");
  stays("const %w: f32[4](1, 2, 3, 4)", "input %w: f32[4]");
  stays("const %w: f32[4](1, 2, 3, 4)", "const %w: f32[3,1](1, 2, 3)");
  stays("const %w: f32[4](1, 2, 3, 4)", "const %w: f32[](3)");
  stays("Sqrt@17", "Exp@17");
  stays("(%x, %r)", "(%a, %r)");  // scales the square, not x
}

TEST(RmsNorm, SharedValuesAreUnchanged) {
  for (const std::string_view value : {"a", "b", "c", "d", "r", "n"}) {
    const std::string output = fmt::format("output \"y\" %y\n    output \"{0}\" %{0}", value);
    EXPECT_EQ(unchanged(recognise_patterns, exported("output \"y\" %y", output)), "") << value;
  }
  EXPECT_EQ(unchanged(recognise_patterns, exported("output \"y\" %y",
                                                   "%z: f32[2,3,4] = Exp@17 \"z\"(%n)\n    output \"y\" %y\n"
                                                   "    output \"z\" %z")),
            "");
}

TEST(RmsNorm, MeanOverAnotherAxisIsUnchanged) {
  // The mean is over the first axis. Both axes have the same length, so everything else fits.
  EXPECT_EQ(unchanged(recognise_patterns, R"(graph "g" {
    input %x: f32[4,4]
    const %axes: i64[1](0)
    const %e: f32[](0.5)
    const %w: f32[4](1, 2, 3, 4)
    %a: f32[4,4] = Mul@17 "a"(%x, %x)
    %b: f32[1,4] = ReduceMean@18 "b" {keepdims=1}(%a, %axes)
    %c: f32[1,4] = Add@17 "c"(%b, %e)
    %d: f32[1,4] = Sqrt@17 "d"(%c)
    %n: f32[4,4] = Div@17 "n"(%x, %d)
    %y: f32[4,4] = Mul@17 "y"(%n, %w)
    output "y" %y
  })"),
            "");
  EXPECT_EQ(unchanged(recognise_patterns, R"(graph "g" {
    input %x: f32[4,4]
    const %axes: i64[1](1)
    const %e: f32[](0.5)
    const %w: f32[4](1, 2, 3, 4)
    %a: f32[4,4] = Mul@17 "a"(%x, %x)
    %b: f32[4] = ReduceMean@18 "b" {keepdims=0}(%a, %axes)
    %c: f32[4] = Add@17 "c"(%b, %e)
    %d: f32[4] = Sqrt@17 "d"(%c)
    %n: f32[4,4] = Div@17 "n"(%x, %d)
    %y: f32[4,4] = Mul@17 "y"(%n, %w)
    output "y" %y
  })"),
            "");
}

TEST(RmsNorm, ParametersThatAddADimensionAreUnchanged) {
  EXPECT_EQ(unchanged(recognise_patterns, R"(graph "g" {
    input %x: f32[3,4]
    const %axes: i64[1](1)
    const %e: f32[](0.5)
    const %w: f32[1,1,4](1, 2, 3, 4)
    %a: f32[3,4] = Mul@17 "a"(%x, %x)
    %b: f32[3,1] = ReduceMean@18 "b" {keepdims=1}(%a, %axes)
    %c: f32[3,1] = Add@17 "c"(%b, %e)
    %d: f32[3,1] = Sqrt@17 "d"(%c)
    %n: f32[3,4] = Div@17 "n"(%x, %d)
    %y: f32[1,3,4] = Mul@17 "y"(%n, %w)
    output "y" %y
  })"),
            "");
}

/// LayerNormalization written as separate nodes, with one part of the text replaced.
std::string centred(std::string_view from = "", std::string_view to = "") {
  std::string text = R"(graph "g" {
    input %x: f32[3,4]
    const %axes: i64[1](1)
    const %e: f32[](0.5)
    const %w: f32[4](1, 2, 3, 4)
    const %v: f32[4](1, 2, 3, 4)
    %m: f32[3,1] = ReduceMean@18 "m" {keepdims=1}(%x, %axes)
    %s: f32[3,4] = Sub@17 "s"(%x, %m)
    %a: f32[3,4] = Mul@17 "a"(%s, %s)
    %b: f32[3,1] = ReduceMean@18 "b" {keepdims=1}(%a, %axes)
    %c: f32[3,1] = Add@17 "c"(%b, %e)
    %d: f32[3,1] = Sqrt@17 "d"(%c)
    %n: f32[3,4] = Div@17 "n"(%s, %d)
    %z: f32[3,4] = Mul@17 "z"(%n, %w)
    %y: f32[3,4] = Add@17 "y"(%z, %v)
    output "y" %y
  })";
  for (size_t at = text.find(from); !from.empty() && at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

TEST(RmsNorm, CentredInputBecomesALayerNorm) {
  EXPECT_EQ(after(recognise_patterns, centred()),
            "%y: f32[3,4] = LayerNormalization@28 \"y_1\" {axis=-1, epsilon=0.5}(%x, %w, %v)\noutput \"y\" %y\n");
  EXPECT_EQ(after(recognise_patterns, centred("output \"y\" %y", "output \"z\" %z")),
            "%z: f32[3,4] = LayerNormalization@28 \"z_1\" {axis=-1, epsilon=0.5}(%x, %w)\noutput \"z\" %z\n");
}

TEST(RmsNorm, BiasThatAddsADimensionIsUnchanged) {
  std::string text = centred("%v: f32[4]", "%v: f32[1,1,4]");
  text.replace(text.find("%y: f32[3,4]"), 12, "%y: f32[1,3,4]");
  EXPECT_EQ(after(recognise_patterns, text),
            "%z: f32[3,4] = LayerNormalization@28 \"z_1\" {axis=-1, epsilon=0.5}(%x, %w)\n"
            "%y: f32[1,3,4] = Add@17 \"y\"(%z, %v)\noutput \"y\" %y\n");
}

}  // namespace
}  // namespace kilter
