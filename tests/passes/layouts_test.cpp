// choose_layouts and fuse.
#include <gtest/gtest.h>

#include <map>

#include "pass_runner.h"

namespace kilter {
namespace {

TEST(ChooseLayouts, ConvolutionsGetBlocksAndHalos) {
  EXPECT_EQ(after(choose_layouts, R"(graph "g" {
    input %x: f32[1,3,6,6]
    const %w: f32[16,3,3,3]#0
    const %v: f32[20,16,3,3]#0
    const %s: f32[20,1,1]#0
    const %shape: i64[2](1, 720)
    %a: f32[1,16,6,6] = Conv@11 "a" {pads=[1, 1, 1, 1]}(%x, %w)
    %b: f32[1,16,6,6] = Relu@14 "b"(%a)
    %c: f32[1,20,6,6] = Conv@11 "c" {pads=[1, 0, 1, 2]}(%b, %v)
    %d: f32[1,20,6,6] = Mul@14 "d"(%c, %s)
    %e: f32[1,720] = Reshape@14 "e"(%d, %shape)
    output "e" %e
    output "b" %b
  })"),
            "%x.padded: f32[1,3,6,6]{halo1,1,1,1} = kilter::Relayout@1 \"x.padded\"(%x)\n"
            "%a: f32[1,16,6,6]{c8} = Conv@11 \"a\" {pads=[1, 1, 1, 1]}(%x.padded, %w)\n"
            "%b: f32[1,16,6,6]{c8 halo1,1,0,2} = Relu@14 \"b\"(%a)\n"
            "%c: f32[1,20,6,6]{c8} = Conv@11 \"c\" {pads=[1, 0, 1, 2]}(%b, %v)\n"
            "%d: f32[1,20,6,6]{c8} = Mul@14 \"d\"(%c, %s_1)\n"
            "%d.plain: f32[1,20,6,6] = kilter::Relayout@1 \"d.plain\"(%d)\n"
            "%e: f32[1,720] = Reshape@14 \"e\"(%d.plain, %shape)\n"
            "%b.out: f32[1,16,6,6] = kilter::Relayout@1 \"b.out\"(%b)\n"
            "output \"e\" %e\n"
            "output \"b\" %b.out\n");
}

TEST(ChooseLayouts, ABlockIsAVectorOfTheTarget) {
  const std::string_view text = R"(graph "g" {
    input %x: f32[1,16,2,2]
    const %w: f32[16,16,1,1]#0
    %a: f32[1,16,2,2] = Conv@11 "a"(%x, %w)
    output "a" %a
  })";
  for (const auto& [target, block] : {std::pair("x86-64-v2", 4), std::pair("haswell", 8), std::pair("znver4", 16)}) {
    EXPECT_EQ(after(choose_layouts, text, target),
              fmt::format("%x.blocked: f32[1,16,2,2]{{c{0}}} = kilter::Relayout@1 \"x.blocked\"(%x)\n"
                          "%a: f32[1,16,2,2]{{c{0}}} = Conv@11 \"a\"(%x.blocked, %w)\n"
                          "%a.out: f32[1,16,2,2] = kilter::Relayout@1 \"a.out\"(%a)\n"
                          "output \"a\" %a.out\n",
                          block));
  }
}

TEST(ChooseLayouts, ConvolutionsOfFewChannelsMakePlainImages) {
  EXPECT_EQ(after(choose_layouts, R"(graph "g" {
    input %x: f32[1,3,20,20]
    const %w: f32[16,3,1,1]#0
    const %v: f32[1,16,3,3]#0
    const %u: f32[2,1,3,3]#0
    %a: f32[1,16,20,20] = Conv@11 "a"(%x, %w)
    %b: f32[1,1,20,20] = Conv@11 "b" {pads=[1, 1, 1, 1]}(%a, %v)
    %c: f32[1,1,20,20] = Sigmoid@13 "c"(%b)
    %d: f32[1,2,20,20] = Conv@11 "d" {pads=[1, 1, 1, 1]}(%c, %u)
    output "d" %d
  })"),
            "%a: f32[1,16,20,20]{c8 halo1,1,1,1} = Conv@11 \"a\"(%x, %w)\n"
            "%b: f32[1,1,20,20] = Conv@11 \"b\" {pads=[1, 1, 1, 1]}(%a, %v)\n"
            "%c: f32[1,1,20,20] = Sigmoid@13 \"c\"(%b)\n"
            "%c.padded: f32[1,1,20,20]{halo1,1,1,1} = kilter::Relayout@1 \"c.padded\"(%c)\n"
            "%d: f32[1,2,20,20] = Conv@11 \"d\" {pads=[1, 1, 1, 1]}(%c.padded, %u)\n"
            "output \"d\" %d\n");
}

TEST(ChooseLayouts, ConvolutionsOfFewChannelsStayBlockedIfAReaderNeedsBlocks) {
  EXPECT_EQ(after(choose_layouts, R"(graph "g" {
    input %x: f32[1,3,20,20]
    const %w: f32[5,3,1,1]#0
    const %v: f32[16,5,1,1]#0
    %a: f32[1,5,20,20] = Conv@11 "a"(%x, %w)
    %b: f32[1,5,20,20] = Relu@14 "b"(%a)
    %c: f32[1,16,20,20] = Conv@11 "c"(%b, %v)
    output "b" %b
    output "c" %c
  })"),
            "%a: f32[1,5,20,20]{c8} = Conv@11 \"a\"(%x, %w)\n"
            "%b: f32[1,5,20,20]{c8} = Relu@14 \"b\"(%a)\n"
            "%c: f32[1,16,20,20]{c8} = Conv@11 \"c\"(%b, %v)\n"
            "%b.out: f32[1,5,20,20] = kilter::Relayout@1 \"b.out\"(%b)\n"
            "%c.out: f32[1,16,20,20] = kilter::Relayout@1 \"c.out\"(%c)\n"
            "output \"b\" %b.out\n"
            "output \"c\" %c.out\n");
}

TEST(ChooseLayouts, PartsOfAConcatenationShareTheLargestHalo) {
  EXPECT_EQ(after(choose_layouts, R"(graph "g" {
    input %x: f32[1,8,4,4]
    const %w: f32[8,8,1,1]#0
    const %v: f32[8,16,3,3]#0
    %a: f32[1,8,4,4] = Conv@11 "a"(%x, %w)
    %b: f32[1,8,4,4] = Relu@14 "b"(%a)
    %c: f32[1,16,4,4] = Concat@13 "c" {axis=1}(%a, %b)
    %d: f32[1,8,4,4] = Conv@11 "d" {pads=[1, 1, 1, 1]}(%c, %v)
    %e: f32[1,8,1,1] = GlobalMaxPool@1 "e"(%d)
    output "e" %e
  })"),
            "%x.blocked: f32[1,8,4,4]{c8} = kilter::Relayout@1 \"x.blocked\"(%x)\n"
            "%a: f32[1,8,4,4]{c8 halo1,1,1,1} = Conv@11 \"a\"(%x.blocked, %w)\n"
            "%b: f32[1,8,4,4]{c8 halo1,1,1,1} = Relu@14 \"b\"(%a)\n"
            "%c: f32[1,16,4,4]{c8 halo1,1,1,1} = Concat@13 \"c\" {axis=1}(%a, %b)\n"
            "%d: f32[1,8,4,4]{c8} = Conv@11 \"d\" {pads=[1, 1, 1, 1]}(%c, %v)\n"
            "%e: f32[1,8,1,1]{c8} = GlobalMaxPool@1 \"e\"(%d)\n"
            "%e.out: f32[1,8,1,1] = kilter::Relayout@1 \"e.out\"(%e)\n"
            "output \"e\" %e.out\n");
}

/// A convolution into 20 channels, `node`, which splits its result into %b and %c, and a padded convolution of %c.
std::string cut(std::string_view node, int64_t channels = 4) {
  return after(choose_layouts, fmt::format(R"(graph "g" {{
    input %x: f32[1,8,4,4]
    const %w: f32[20,8,1,1]#0
    const %v: f32[8,{},3,3]#0
    const %parts: i64[2](16, 4)
    const %uneven: i64[2](4, 16)
    const %eight: i64[1](8)
    const %end: i64[1](1000)
    const %one: i64[1](1)
    const %two: i64[1](2)
    %a: f32[1,20,4,4] = Conv@11 "a"(%x, %w)
    {}
    %d: f32[1,8,4,4] = Conv@11 "d" {{pads=[1, 1, 1, 1]}}(%c, %v)
    output "d" %d
  }})",
                                           channels, node));
}

TEST(ChooseLayouts, PartsOfWholeBlocksStayBlockedAndShareTheHalo) {
  EXPECT_EQ(
      cut("%b: f32[1,16,4,4], %c: f32[1,4,4,4] = Split@13 \"s\" {axis=1}(%a, %parts)"),
      "%x.blocked: f32[1,8,4,4]{c8} = kilter::Relayout@1 \"x.blocked\"(%x)\n"
      "%a: f32[1,20,4,4]{c8 halo1,1,1,1} = Conv@11 \"a\"(%x.blocked, %w)\n"
      "%b: f32[1,16,4,4]{c8 halo1,1,1,1}, %c: f32[1,4,4,4]{c8 halo1,1,1,1} = Split@13 \"s\" {axis=1}(%a, %parts)\n"
      "%d: f32[1,8,4,4]{c8} = Conv@11 \"d\" {pads=[1, 1, 1, 1]}(%c, %v)\n"
      "%d.out: f32[1,8,4,4] = kilter::Relayout@1 \"d.out\"(%d)\n"
      "output \"d\" %d.out\n");
  const std::string slice = cut("%c: f32[1,12,4,4] = Slice@13 \"c\"(%a, %eight, %end, %one)", 12);
  EXPECT_NE(slice.find("%c: f32[1,12,4,4]{c8 halo1,1,1,1} = Slice@13 \"c\"(%a,"), std::string::npos) << slice;
}

TEST(ChooseLayouts, PartsOfBlocksAreTakenChannelByChannel) {
  const std::string text = cut("%b: f32[1,4,4,4], %c: f32[1,16,4,4] = Split@13 \"s\" {axis=1}(%a, %uneven)", 16);
  EXPECT_NE(text.find("%c: f32[1,16,4,4]{c8 halo1,1,1,1} = kilter::TakeChannels@1 \"s.1\" {channels=[4, 5, 6, 7, 8, 9, "
                      "10, 11, 12, 13, 14, 15, 16, 17, 18, 19]}(%a)"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("s.0"), std::string::npos) << text;
  EXPECT_EQ(text.find("%a.plain"), std::string::npos) << text;
}

TEST(ChooseLayouts, StridedPartsAreCutFromPlainImages) {
  const std::string text = cut("%c: f32[1,6,4,4] = Slice@13 \"s\"(%a, %eight, %end, %one, %two)", 6);
  EXPECT_NE(text.find("%a.plain: f32[1,20,4,4] = kilter::Relayout@1"), std::string::npos) << text;
  EXPECT_NE(text.find("(%a.plain, "), std::string::npos) << text;
  EXPECT_NE(text.find("%c.blocked"), std::string::npos) << text;
}

/// Puts a node that moves pixels between two convolutions. Returns the node that replaces it, or "leaves the blocks" if
/// the image becomes plain there.
std::string pixels(std::string_view type, std::string_view node) {
  const std::string text = after(choose_layouts, fmt::format(R"(graph "g" {{
    input %x: f32[1,8,6,7]
    const %w: f32[20,8,1,1]#0
    const %v: f32[8,20,1,1]#0
    const %pads: i64[8](0, 0, 2, 1, 0, 0, 0, 1)
    const %crop: i64[8](0, 0, -2, 0, 0, 0, -1, 0)
    const %channels: i64[8](0, 1, 0, 0, 0, -1, 0, 0)
    const %last: i64[2](-1, 1)
    const %ends: i64[2](-1000, 7)
    const %axes: i64[2](2, 3)
    const %steps: i64[2](-1, 2)
    %a: f32[1,20,6,7] = Conv@11 "a"(%x, %w)
    %c: {} = {}
    %d: f32[1,8,{}] = Conv@11 "d"(%c, %v)
    output "d" %d
  }})",
                                                             type, node, type.substr(type.rfind("20,") + 3, 3)));
  const size_t at = text.find("%c: ");
  return text.find("%a.plain") != std::string::npos ? "leaves the blocks" : text.substr(at, text.find('\n', at) - at);
}

TEST(ChooseLayouts, MovesOfPixelsStayInBlocks) {
  const std::string taken = " = kilter::TakePixels@1 \"m\" ";
  EXPECT_EQ(pixels("f32[1,20,8,9]", "Pad@18 \"m\" {mode=\"reflect\"}(%a, %pads)"),
            "%c: f32[1,20,8,9]{c8}" + taken + "{columns=[1, -1, 2, 1, 1, 6, 5, 1, 1], rows=[2, -1, 3, 1, 1, 5]}(%a)");
  EXPECT_EQ(pixels("f32[1,20,8,9]", "Pad@18 \"m\" {mode=\"edge\"}(%a, %pads)"),
            "%c: f32[1,20,8,9]{c8}" + taken + "{columns=[0, 0, 2, 1, 1, 6, 6, 1, 1], rows=[0, 0, 3, 1, 1, 5]}(%a)");
  EXPECT_EQ(pixels("f32[1,20,3,7]", "Pad@18 \"m\"(%a, %crop)"),
            "%c: f32[1,20,3,7]{c8}" + taken + "{columns=[0, 1, 7], rows=[2, 1, 3]}(%a)");
  EXPECT_EQ(pixels("f32[1,20,6,3]", "Slice@13 \"m\"(%a, %last, %ends, %axes, %steps)"),
            "%c: f32[1,20,6,3]{c8}" + taken + "{columns=[1, 2, 3], rows=[5, -1, 6]}(%a)");
  // Nodes that pad with a constant or move channels need other kernels.
  EXPECT_EQ(pixels("f32[1,20,8,9]", "Pad@18 \"m\"(%a, %pads)"), "leaves the blocks");
  EXPECT_EQ(pixels("f32[1,20,6,7]", "Pad@18 \"m\" {mode=\"reflect\"}(%a, %channels)"), "leaves the blocks");
}

/// Two convolutions into 12 and 4 channels, nodes `moves` that join them into %d: f32[1,16,4,4], and the reader of %d.
std::string joined(std::string_view moves, std::string_view reader) {
  return after(choose_layouts, fmt::format(R"(graph "g" {{
    input %x: f32[1,8,4,4]
    const %w: f32[12,8,1,1]#0
    const %v: f32[4,8,1,1]#0
    const %u: f32[8,16,1,1]#0
    const %shape: i64[2](1, 256)
    const %order: i64[16](0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, -1)
    %a: f32[1,12,4,4] = Conv@11 "a"(%x, %w)
    %b: f32[1,4,4,4] = Conv@11 "b"(%x, %v)
    {}
    {}
    output "e" %e
  }})",
                                           moves, reader));
}

constexpr std::string_view kShuffled =
    "%c: f32[1,16,4,4] = Concat@13 \"c\" {axis=1}(%a, %b)\n"
    "    %d: f32[1,16,4,4] = Gather@13 \"d\" {axis=1}(%c, %order)";

TEST(ChooseLayouts, ChannelMovesBecomeOneNode) {
  const std::string text = joined(kShuffled, "%e: f32[1,8,4,4] = Conv@11 \"e\"(%d, %u)");
  EXPECT_NE(
      text.find("%d: f32[1,16,4,4]{c8} = kilter::TakeChannels@1 \"d_1\" {channels=[0, 4, 8, 12, 1, 5, 9, 13, 2, 6, "
                "10, 14, 3, 7, 11, 15]}(%a, %b)\n"),
      std::string::npos)
      << text;
  EXPECT_EQ(text.find("%c:"), std::string::npos) << text;
}

TEST(ChooseLayouts, ChannelMovesStayPlainIfNothingNeedsBlocks) {
  const std::string text = joined(kShuffled, "%e: f32[1,256] = Reshape@14 \"e\"(%d, %shape)");
  EXPECT_EQ(text.find("TakeChannels"), std::string::npos) << text;
  EXPECT_NE(text.find("Gather@13 \"d\""), std::string::npos) << text;
}

TEST(ChooseLayouts, WholeBlockMovesBecomeViews) {
  std::string moves = "%c0: f32[1,8,4,4] = Relu@14 \"c0\"(%x)\n";
  const auto part = [&](int k, std::string_view from, int64_t first) {
    moves += fmt::format("const %f{0}: i64[1]({1})\n const %l{0}: i64[1]({2})\n", k, first, first + 2);
    moves += fmt::format("%p{0}: f32[1,2,4,4] = Slice@13 \"p{0}\"(%{1}, %f{0}, %l{0}, %channel)\n", k, from, first);
  };
  moves += "const %channel: i64[1](1)\n";
  part(0, "a", 1), part(1, "b", 1), part(2, "a", 5), part(3, "a", 9);
  moves += "%q: f32[1,8,4,4] = Concat@13 \"q\" {axis=1}(%p0, %p1, %p2, %p3)\n";
  moves += "%d: f32[1,16,4,4] = Concat@13 \"d\" {axis=1}(%q, %c0)";
  const std::string text = joined(moves, "%e: f32[1,8,4,4] = Conv@11 \"e\"(%d, %u)");
  EXPECT_NE(text.find("%d: f32[1,16,4,4]{c8} = Concat@13 \"d\""), std::string::npos) << "whole blocks are views\n"
                                                                                     << text;
  EXPECT_NE(
      text.find("%q: f32[1,8,4,4]{c8} = kilter::TakeChannels@1 \"q_1\" {channels=[1, 2, 13, 14, 5, 6, 9, 10]}(%a, %b)"),
      std::string::npos)
      << text;
}

TEST(ChooseLayouts, PoolsReadBlocksUnlessTheyReturnIndices) {
  EXPECT_EQ(after(choose_layouts, R"(graph "g" {
    input %x: f32[1,8,4,4]
    %a: f32[1,8,2,2] = AveragePool@11 "a" {kernel_shape=[2, 2], strides=[2, 2]}(%x)
    output "a" %a
  })"),
            "%x.blocked: f32[1,8,4,4]{c8} = kilter::Relayout@1 \"x.blocked\"(%x)\n"
            "%a: f32[1,8,2,2]{c8} = AveragePool@11 \"a\" {kernel_shape=[2, 2], strides=[2, 2]}(%x.blocked)\n"
            "%a.out: f32[1,8,2,2] = kilter::Relayout@1 \"a.out\"(%a)\n"
            "output \"a\" %a.out\n");
  EXPECT_EQ(unchanged(choose_layouts, R"(graph "g" {
    input %x: f32[1,8,4,4]
    %a: f32[1,8,3,3], %i: i64[1,8,3,3] = MaxPool@12 "a" {kernel_shape=[2, 2]}(%x)
    %b: f32[1,8,3,3] = LpPool@11 "b" {kernel_shape=[2, 2]}(%x)
    output "a" %a
    output "i" %i
    output "b" %b
  })"),
            "");
}

TEST(ChooseLayouts, GraphsWithoutConstantWeightConvolutionsAreUnchanged) {
  EXPECT_EQ(unchanged(choose_layouts, R"(graph "g" {
    input %x: f32[1,8,4,4]
    input %w: f32[8,8,1,1]
    %a: f32[1,8,4,4] = Conv@11 "a"(%x, %w)
    %b: f32[1,8,4,4] = Relu@14 "b"(%a)
    output "b" %b
  })"),
            "");
}

TEST(Fuse, ElementwiseNodesJoinTheirProducer) {
  EXPECT_EQ(after(fuse, R"(graph "g" {
    input %x: f32[4,8]
    input %r: f32[4,3]
    const %w: f32[8,3]#0
    const %b: f32[3](1, 2, 3)
    %a: f32[4,3] = MatMul@13 "a"(%x, %w)
    %c: f32[4,3] = Add@14 "c"(%a, %b)
    %d: f32[4,3] = Relu@14 "d"(%c)
    %e: f32[4,3] = Add@14 "e"(%r, %d)
    %f: f32[4,3] = Softmax@13 "f"(%e)
    output "f" %f
  })"),
            "%a: f32[4,3] = MatMul@13 \"a\"(%x, %w) group 0\n"
            "%c: f32[4,3] = Add@14 \"c\"(%a, %b) group 0\n"
            "%d: f32[4,3] = Relu@14 \"d\"(%c) group 0\n"
            "%e: f32[4,3] = Add@14 \"e\"(%r, %d) group 0\n"
            "%f: f32[4,3] = Softmax@13 \"f\"(%e) group 4\n"
            "output \"f\" %f\n");
}

TEST(Fuse, NodeWithALaterInputStaysOutside) {
  EXPECT_EQ(after(fuse, R"(graph "g" {
    input %r: f32[1,8,4,4]
    const %axes: i64[2](2, 3)
    const %half: f32[](0.5)
    %p: f32[1,8,4,4] = Relu@14 "p"(%r)
    %c: f32[1,8,4,4] = Add@14 "c"(%p, %p)
    %d: f32[1,8,1,1] = ReduceMean@18 "d"(%c, %axes)
    %e: f32[1,8,4,4] = Mul@14 "e"(%c, %d)
    %f: f32[1,8,1,1] = Mul@14 "f"(%d, %half)
    output "c" %c
    output "e" %e
    output "f" %f
  })"),
            "%p: f32[1,8,4,4] = Relu@14 \"p\"(%r) group 0\n"
            "%c: f32[1,8,4,4] = Add@14 \"c\"(%p, %p) group 0\n"
            "%d: f32[1,8,1,1] = ReduceMean@18 \"d\"(%c, %axes) group 2\n"
            "%e: f32[1,8,4,4] = Mul@14 \"e\"(%c, %d) group 3\n"
            "%f: f32[1,8,1,1] = Mul@14 \"f\"(%d, %half) group 2\n"
            "output \"c\" %c\n"
            "output \"e\" %e\n"
            "output \"f\" %f\n");
}

TEST(Fuse, OtherShapesLayoutsAndMovementsStayOutside) {
  EXPECT_EQ(after(fuse, R"(graph "g" {
    input %x: f32[4,8]
    input %wide: f32[2,4,8]
    const %shape: i64[1](32)
    %a: f32[4,8] = Relu@14 "a"(%x)
    %b: f32[2,4,8] = Add@14 "b"(%wide, %a)
    %c: f32[32] = Reshape@14 "c"(%a, %shape)
    %d: f32[32] = Relu@14 "d"(%c)
    %e: f32[8,4] = Transpose@13 "e"(%a)
    %f: f32[8,4] = Relu@14 "f"(%e)
    output "b" %b
    output "d" %d
    output "f" %f
  })"),
            "%a: f32[4,8] = Relu@14 \"a\"(%x) group 0\n"
            "%b: f32[2,4,8] = Add@14 \"b\"(%wide, %a) group 1\n"
            "%c: f32[32] = Reshape@14 \"c\"(%a, %shape)\n"
            "%d: f32[32] = Relu@14 \"d\"(%c) group 3\n"
            "%e: f32[8,4] = Transpose@13 \"e\"(%a)\n"
            "%f: f32[8,4] = Relu@14 \"f\"(%e) group 5\n"
            "output \"b\" %b\n"
            "output \"d\" %d\n"
            "output \"f\" %f\n");
}

TEST(Fuse, AGroupHasAtMost24Nodes) {
  std::string text = "graph \"g\" {\n  input %v0: f32[2]\n";
  for (int i = 1; i <= 30; ++i) text += fmt::format("  %v{}: f32[2] = Neg@13 \"n{}\"(%v{})\n", i, i, i - 1);
  Graph graph = parse_graph(text + "  output \"y\" %v30\n}");
  run_pass(fuse, graph);
  std::map<int32_t, int> sizes;
  for (NodeId id : graph.order()) ++sizes[graph.node(id).group];
  EXPECT_EQ(sizes, (std::map<int32_t, int>{{0, 24}, {24, 6}}));
}

}  // namespace
}  // namespace kilter
