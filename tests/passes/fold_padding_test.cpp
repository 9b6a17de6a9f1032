#include <fmt/format.h>
#include <gtest/gtest.h>

#include "pass_runner.h"

namespace kilter {
namespace {

/// A Pad with `pads` of an f32[1,3,8,8] that the operator `maker` computes, and the padded image's reader.
std::string padded(std::string_view reader, std::string_view value = "0", std::string_view maker = "Neg",
                   std::string_view pads = "0,0,1,0,0,0,2,1") {
  return fmt::format(R"(graph "g" {{
    input %x0: f32[1,3,8,8]
    input %w: f32[4,3,5,3]
    const %pads: i64[8]({})
    const %value: f32[]({})
    %x: f32[1,3,8,8] = {}@13 "x"(%x0)
    %p: f32[1,3,11,9] = Pad@18 "pad"(%x, %pads, %value)
    {}
    output "y" %y
  }})",
                     pads, value, maker, reader);
}

TEST(FoldPadding, PadIsFoldedIntoConvolutions) {
  EXPECT_EQ(after(fold_padding, padded(R"(%y: f32[1,4,9,9] = Conv@11 "y" {pads=[1, 1, 1, 1]}(%p, %w))")),
            "%x: f32[1,3,8,8] = Neg@13 \"x\"(%x0)\n"
            "%y_1: f32[1,4,9,9] = Conv@11 \"y_1\" {dilations=[1, 1], group=1, kernel_shape=[5, 3], pads=[2, 1, 3, 2], "
            "strides=[1, 1]}(%x, %w)\n"
            "output \"y\" %y_1\n");
}

TEST(FoldPadding, AveragePoolsCountFoldedPadding) {
  EXPECT_EQ(after(fold_padding, padded(R"(%y: f32[1,3,9,8] = AveragePool@19 "y" {kernel_shape=[3, 2]}(%p))")),
            "%x: f32[1,3,8,8] = Neg@13 \"x\"(%x0)\n"
            "%y_1: f32[1,3,9,8] = AveragePool@19 \"y_1\" {ceil_mode=0, count_include_pad=1, dilations=[1, 1], "
            "kernel_shape=[3, 2], pads=[1, 0, 2, 1], strides=[1, 1]}(%x)\n"
            "output \"y\" %y_1\n");
}

TEST(FoldPadding, MaxPoolsOfNonNegativeValues) {
  const std::string pool = R"(%y: f32[1,3,9,8] = MaxPool@12 "y" {kernel_shape=[3, 2]}(%p))";
  const std::string want = "MaxPool@12 \"y_1\" {ceil_mode=0, dilations=[1, 1], kernel_shape=[3, 2], pads=[1, 0, 2, 1]";
  EXPECT_NE(after(fold_padding, padded(pool, "0", "Relu")).find(want), std::string::npos);
  EXPECT_NE(after(fold_padding, padded(pool, "0", "Sigmoid")).find(want), std::string::npos);
  EXPECT_NE(after(fold_padding, padded(pool, "-inf")).find(want), std::string::npos);
  EXPECT_EQ(unchanged(fold_padding, padded(pool)), "");
  EXPECT_EQ(unchanged(fold_padding, padded(pool, "-1", "Relu")), "");
}

TEST(FoldPadding, OtherPadsAreUnchanged) {
  const std::string conv = R"(%y: f32[1,4,7,7] = Conv@11 "y"(%p, %w))";
  ASSERT_NE(after(fold_padding, padded(conv)).find("pads=[1, 0, 2, 1]"), std::string::npos);
  EXPECT_EQ(unchanged(fold_padding, padded(conv, "1")), "");                             // not zeros
  EXPECT_EQ(unchanged(fold_padding, padded(conv, "0", "Neg", "0,0,-1,0,0,0,4,1")), "");  // crops
  EXPECT_EQ(unchanged(fold_padding, with(padded(conv), "\"pad\"", "\"pad\" {mode=\"edge\"}")), "");
  EXPECT_EQ(unchanged(fold_padding,
                      padded(R"(%y: f32[1,3,10,8] = MaxPool@12 "y" {kernel_shape=[2, 2], ceil_mode=1}(%p))", "-inf")),
            "");
  // A window would be entirely inside the padding.
  EXPECT_EQ(unchanged(fold_padding, padded(R"(%y: f32[1,3,10,8] = MaxPool@12 "y" {kernel_shape=[2, 2]}(%p))", "-inf")),
            "");
  // The pool excludes its own padding from the mean, but not the Pad's.
  EXPECT_EQ(unchanged(fold_padding,
                      padded(R"(%y: f32[1,3,11,8] = AveragePool@19 "y" {kernel_shape=[3, 2], pads=[1, 0, 1, 0]}(%p))")),
            "");
}

/// A 3x3 convolution of an f32[1,1,20,33] with these attributes and nine different taps.
std::string dilated(std::string_view attrs, std::string_view y) {
  return fmt::format(R"(graph "g" {{
    input %x: f32[1,1,20,33]
    const %w: f32[1,1,3,3](0, 1, 2, 3, 4, 5, 6, 7, 8)
    %y: f32[{}] = Conv@11 "y" {{{}}}(%x, %w)
    output "y" %y
  }})",
                     y, attrs);
}

TEST(FoldPadding, TapsThatReadOnlyPaddingAreRemoved) {
  Graph graph = parse_graph(dilated("dilations=[24, 24], pads=[24, 24, 24, 24]", "1,1,20,33"));
  EXPECT_EQ(run_pass(fold_padding, graph), 1);
  const Node& conv = graph.node(graph.order().front());
  EXPECT_EQ(conv.ints_attr("kernel_shape"), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(conv.ints_attr("pads"), (std::vector<int64_t>{0, 24, 0, 24}));
  EXPECT_TRUE(graph.value(conv.inputs[1]).constant->same(Tensor::of<float>({1, 1, 1, 3}, {3, 4, 5})));
  // Only the taps before the image: the outputs end where the image does.
  graph = parse_graph(dilated("dilations=[25, 1], pads=[50, 1, 0, 1]", "1,1,20,33"));
  EXPECT_EQ(run_pass(fold_padding, graph), 1);
  EXPECT_EQ(graph.node(graph.order().front()).ints_attr("kernel_shape"), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(graph.node(graph.order().front()).ints_attr("pads"), (std::vector<int64_t>{0, 1, 0, 1}));
}

TEST(FoldPadding, TapsThatReadTheImageAreKept) {
  EXPECT_EQ(unchanged(fold_padding, dilated("dilations=[19, 32], pads=[19, 32, 19, 32]", "1,1,20,33")), "");
  // Without the first tap, the window would begin inside the image.
  EXPECT_EQ(unchanged(fold_padding, dilated("dilations=[12, 1], pads=[4, 1, 4, 1]", "1,1,4,33")), "");
  const std::string whole = dilated("dilations=[24, 24], pads=[24, 24, 24, 24]", "1,1,20,33");
  EXPECT_EQ(unchanged(fold_padding, whole.substr(0, whole.find("const %w")) + "input %w: f32[1,1,3,3]\n" +
                                        whole.substr(whole.find("%y:"))),
            "");
}

}  // namespace
}  // namespace kilter
