// volumes_as_images: volumes are computed as batches of images, one per frame.
#include <gtest/gtest.h>

#include "pass_runner.h"

namespace kilter {
namespace {

TEST(Volumes, ConvolutionReadsAllItsFramesAtOnce) {
  const std::string_view text = R"(graph "g" {
    input %x: f32[1,2,4,3,3]
    const %w: f32[1,2,2,1,1](1, 2, 3, 4)
    const %b: f32[1](5)
    %y: f32[1,1,2,3,3] = Conv@11 "y" {strides=[2,1,1]}(%x, %w, %b)
    %z: f32[1,1,2,3,3] = Relu@14 "z"(%y)
    output "z" %z
  })";
  EXPECT_EQ(after(volumes_as_images, text),
            "%x.frames: f32[1,4,2,3,3] = Transpose@28 \"x.frames\" {perm=[0, 2, 1, 3, 4]}(%x)\n"
            "%x.frames_1: f32[4,2,3,3] = Reshape@28 \"x.frames_1\" {allowzero=1}(%x.frames, %const)\n"
            "%y.read: f32[2,4,3,3] = kilter::Frames@1 \"y.read\" {count=2, first=0, frames=2, stride=2, volumes=1}"
            "(%x.frames_1)\n"
            "%y_1: f32[2,1,3,3] = Conv@28 \"y\" {dilations=[1, 1], group=1, kernel_shape=[1, 1], pads=[0, 0, 0, 0], "
            "strides=[1, 1]}(%y.read, %w.frames, %b)\n"
            "%z_1: f32[2,1,3,3] = Relu@14 \"z\"(%y_1)\n"
            "%z: f32[1,1,2,3,3] = Reshape@28 \"z.out\" {allowzero=1}(%z_1, %const_2)\n"
            "output \"z\" %z\n");
  Graph graph = parse_graph(text);
  run_pass(volumes_as_images, graph);
  const Tensor& w = *graph.value(graph.find_value("w.frames")).constant;
  EXPECT_TRUE(w.same(Tensor::of<float>({1, 4, 1, 1}, {1, 3, 2, 4})));  // the channels of the first frame come first
}

TEST(Volumes, GroupedConvolutionSumsOneConvolutionPerFrame) {
  EXPECT_EQ(after(volumes_as_images, R"(graph "g" {
    input %x: f32[1,2,3,3,3]
    const %w: f32[2,1,2,1,1](1, 2, 3, 4)
    %y: f32[1,2,4,3,3] = Conv@11 "y" {group=2, pads=[1,0,0,1,0,0]}(%x, %w)
    output "y" %y
  })"),
            "%x.frames: f32[1,3,2,3,3] = Transpose@28 \"x.frames\" {perm=[0, 2, 1, 3, 4]}(%x)\n"
            "%x.frames_1: f32[3,2,3,3] = Reshape@28 \"x.frames_1\" {allowzero=1}(%x.frames, %const)\n"
            "%x.frames_1.padded_2: f32[5,2,3,3] = Concat@28 \"x.frames_1.padded\" {axis=0}(%x.frames_1.padded, "
            "%x.frames_1, %x.frames_1.padded_1)\n"
            "%y.read: f32[4,2,3,3] = kilter::Frames@1 \"y.read\" {count=4, first=0, frames=1, stride=1, volumes=1}"
            "(%x.frames_1.padded_2)\n"
            "%y_1: f32[4,2,3,3] = Conv@28 \"y\" {dilations=[1, 1], group=2, kernel_shape=[1, 1], pads=[0, 0, 0, 0], "
            "strides=[1, 1]}(%y.read, %w.frames)\n"
            "%y.read_1: f32[4,2,3,3] = kilter::Frames@1 \"y.read_1\" {count=4, first=1, frames=1, stride=1, volumes=1}"
            "(%x.frames_1.padded_2)\n"
            "%y_2: f32[4,2,3,3] = Conv@28 \"y_2\" {dilations=[1, 1], group=2, kernel_shape=[1, 1], pads=[0, 0, 0, 0], "
            "strides=[1, 1]}(%y.read_1, %w.frames_1)\n"
            "%y.sum: f32[4,2,3,3] = Add@28 \"y.sum\"(%y_1, %y_2)\n"
            "%y.out: f32[1,4,2,3,3] = Reshape@28 \"y.out\" {allowzero=1}(%y.sum, %const_1)\n"
            "%y: f32[1,2,4,3,3] = Transpose@28 \"y.out_1\" {perm=[0, 2, 1, 3, 4]}(%y.out)\n"
            "output \"y\" %y\n");
}

TEST(Volumes, TransposedConvolutionsBecomeOnePerPhase) {
  EXPECT_EQ(after(volumes_as_images, R"(graph "g" {
    input %x: f32[1,1,2,1,1]
    const %w: f32[1,1,3,1,1](1, 2, 3)
    %y: f32[1,1,5,1,1] = ConvTranspose@11 "y" {strides=[2,1,1]}(%x, %w)
    output "y" %y
  })"),
            "%x.frames: f32[2,1,1,1] = Reshape@28 \"x.frames\" {allowzero=1}(%x, %const)\n"
            "%x.frames.padded_2: f32[4,1,1,1] = Concat@28 \"x.frames.padded\" {axis=0}(%x.frames.padded, %x.frames, "
            "%x.frames.padded_1)\n"
            "%y.read: f32[3,2,1,1] = kilter::Frames@1 \"y.read\" {count=3, first=0, frames=2, stride=1, volumes=1}"
            "(%x.frames.padded_2)\n"
            "%y_1: f32[3,1,1,1] = ConvTranspose@28 \"y\" {dilations=[1, 1], group=1, kernel_shape=[1, 1], "
            "output_padding=[0, 0], pads=[0, 0, 0, 0], strides=[1, 1]}(%y.read, %w.frames)\n"
            "%y.read_1: f32[3,1,1,1] = kilter::Frames@1 \"y.read_1\" {count=3, first=1, frames=1, stride=1, volumes=1}"
            "(%x.frames.padded_2)\n"
            "%y_2: f32[3,1,1,1] = ConvTranspose@28 \"y_2\" {dilations=[1, 1], group=1, kernel_shape=[1, 1], "
            "output_padding=[0, 0], pads=[0, 0, 0, 0], strides=[1, 1]}(%y.read_1, %w.frames_1)\n"
            "%y.phases: f32[3,2,1,1] = Concat@28 \"y.phases\" {axis=1}(%y_1, %y_2)\n"
            "%y.phases_1: f32[6,1,1,1] = Reshape@28 \"y.phases_1\" {allowzero=1}(%y.phases, %const_1)\n"
            "%y.depth: f32[5,1,1,1] = kilter::Frames@1 \"y.depth\" {count=5, first=0, frames=1, stride=1, volumes=1}"
            "(%y.phases_1)\n"
            "%y: f32[1,1,5,1,1] = Reshape@28 \"y.out\" {allowzero=1}(%y.depth, %const_2)\n"
            "output \"y\" %y\n");
}

TEST(Volumes, PoolsRunOverImagesThenFrames) {
  EXPECT_EQ(after(volumes_as_images, R"(graph "g" {
    input %x: f32[1,1,4,4,4]
    %y: f32[1,1,2,2,2] = MaxPool@12 "y" {kernel_shape=[2,2,2], strides=[2,2,2]}(%x)
    output "y" %y
  })"),
            "%x.frames: f32[4,1,4,4] = Reshape@28 \"x.frames\" {allowzero=1}(%x, %const)\n"
            "%y_1: f32[4,1,2,2] = MaxPool@28 \"y\" {ceil_mode=0, dilations=[1, 1], kernel_shape=[2, 2], "
            "pads=[0, 0, 0, 0], strides=[2, 2]}(%x.frames)\n"
            "%y.read: f32[2,1,2,2] = kilter::Frames@1 \"y.read\" {count=2, first=0, frames=1, stride=2, volumes=1}"
            "(%y_1)\n"
            "%y.read_1: f32[2,1,2,2] = kilter::Frames@1 \"y.read_1\" {count=2, first=1, frames=1, stride=2, volumes=1}"
            "(%y_1)\n"
            "%y.depth: f32[2,1,2,2] = Max@28 \"y.depth\"(%y.read, %y.read_1)\n"
            "%y: f32[1,1,2,2,2] = Reshape@28 \"y.out\" {allowzero=1}(%y.depth, %const_1)\n"
            "output \"y\" %y\n");
  const std::string_view mean = R"(graph "g" {
    input %x: f32[1,1,3,1,1]
    %y: f32[1,1,3,1,1] = AveragePool@19 "y" {kernel_shape=[3,1,1], pads=[1,0,0,1,0,0]}(%x)
    output "y" %y
  })";
  Graph graph = parse_graph(mean);
  run_pass(volumes_as_images, graph);
  const Tensor& shares = *graph.value(graph.find_value("y.shares")).constant;
  EXPECT_TRUE(shares.same(Tensor::of<float>({3, 1, 1, 1}, {0.5F, 1 / 3.0F, 0.5F})));
}

TEST(Volumes, FramesArePassedBetweenOperators) {
  const std::string text = after(volumes_as_images, R"(graph "g" {
    input %x: f32[2,1,2,3,3]
    const %w: f32[2,1,1,1,1](1, 2)
    const %s: f32[2](1, 2)
    const %f: f32[2,1,1,1](3, 4)
    const %axes: i64[3](2, 3, 4)
    %a: f32[2,2,2,3,3] = Conv@11 "a"(%x, %w)
    %b: f32[2,2,2,3,3] = InstanceNormalization@6 "b"(%a, %s, %s)
    %c: f32[2,2,2,3,3] = Mul@14 "c"(%b, %f)
    %d: f32[2,4,2,3,3] = Concat@13 "d" {axis=1}(%c, %a)
    %e: f32[2,4,1,1,1] = ReduceMean@18 "e"(%d, %axes)
    output "e" %e
  })");
  EXPECT_EQ(text.find("Transpose"), std::string::npos) << text;
  EXPECT_NE(text.find(" = kilter::FrameNormalization@1 \"b\" {epsilon=1e-05, num_groups=2, volumes=2}(%a_1, %s, %s)\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("%d_1: f32[4,4,3,3] = Concat@28 \"d\" {axis=1}(%c_1, %a_1)\n"), std::string::npos) << text;
}

TEST(Volumes, OtherNodesAreUnchanged) {
  const auto stays = [](std::string_view operands, std::string_view nodes) {
    EXPECT_EQ(unchanged(volumes_as_images, fmt::format("graph \"g\" {{\n{}\n{}\n output \"y\" %y }}", operands, nodes)),
              "");
  };
  stays("input %x: f32[1,1,4,3,3] input %w: f32[1,1,2,1,1]", "%y: f32[1,1,3,3,3] = Conv@11 \"y\"(%x, %w)");
  stays("input %x: f64[1,1,4,3,3] const %w: f64[1,1,2,1,1](1, 2)", "%y: f64[1,1,3,3,3] = Conv@11 \"y\"(%x, %w)");
  stays("input %x: f32[1,1,4,3,3]", "%y: f32[1,1,4,3,3] = Relu@14 \"y\"(%x)");
  stays("input %x: f32[1,1,2,3,3] const %w: f32[1,1,2,1,1](1, 2)",
        "%y: f32[1,1,4,3,3] = ConvTranspose@11 \"y\" {strides=[3,1,1], output_padding=[0,0,0], pads=[0,0,0,1,0,0]}(%x, "
        "%w)");
}

}  // namespace
}  // namespace kilter
