// Sliding windows and resize tables, as resolved from attributes and shapes.
#include "ops/support/window.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "../base/error_of.h"
#include "ops/support/builder.h"
#include "ops/support/resize_coords.h"

namespace kilter {
namespace {

using Ints = std::vector<int64_t>;

Node node_of(std::string_view op, Attrs attrs, int32_t opset = kNewestOpset) {
  Node node;
  node.name = "n";
  node.opset = opset;
  node.op = find_op("", op, opset);
  node.attrs = std::move(attrs);
  return node;
}

TEST(Window, ConvolutionWithExplicitPads) {
  const Window w =
      conv_window(node_of("Conv", {{"pads", Ints{1, 0, 2, 3}}, {"strides", Ints{2, 1}}, {"dilations", Ints{1, 2}}}),
                  {1, 3, 9, 7}, {4, 3, 3, 2});
  EXPECT_EQ(w.kernel, (Ints{3, 2}));
  EXPECT_EQ(w.pads_begin, (Ints{1, 0}));
  EXPECT_EQ(w.pads_end, (Ints{2, 3}));
  EXPECT_EQ(w.out, (Ints{5, 8}));
  EXPECT_EQ(w.span(1), 3);
  EXPECT_EQ(w.source(0, 2, 1), 4);
  EXPECT_EQ(w.kernel_elems(), 6);
}

TEST(Window, AutoPadPlacesTheOddElement) {
  const Attrs upper = {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{2}}};
  const Attrs lower = {{"auto_pad", std::string("SAME_LOWER")}, {"strides", Ints{2}}};
  const Window a = conv_window(node_of("Conv", upper), {1, 1, 6}, {1, 1, 3});
  const Window b = conv_window(node_of("Conv", lower), {1, 1, 6}, {1, 1, 3});
  EXPECT_EQ(a.out, Ints{3});
  EXPECT_EQ(a.pads_begin, Ints{0});
  EXPECT_EQ(a.pads_end, Ints{1});
  EXPECT_EQ(b.pads_begin, Ints{1});
  EXPECT_EQ(b.pads_end, Ints{0});
}

TEST(Window, CeilModeLeavesOutAWindowThatStartsInThePadding) {
  Attrs attrs = {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}, {"pads", Ints{0, 1}}, {"ceil_mode", int64_t{1}}};
  EXPECT_EQ(pool_window(node_of("MaxPool", attrs), {1, 1, 5}).out, Ints{3});
  attrs["strides"] = Ints{3};
  attrs["pads"] = Ints{0, 2};
  EXPECT_EQ(pool_window(node_of("MaxPool", attrs), {1, 1, 6}).out, Ints{2});
}

TEST(Window, OutputShapeSetsPaddingOfTransposedConvolution) {
  const Shape x = {1, 1, 3};
  const Shape w = {1, 1, 4};
  const Window plain = conv_transpose_window(
      node_of("ConvTranspose", {{"strides", Ints{2}}, {"pads", Ints{1, 0}}, {"output_padding", Ints{1}}}), x, w);
  EXPECT_EQ(plain.out, Ints{8});
  const Attrs fixed = {{"strides", Ints{2}}, {"output_shape", Ints{5}}};
  const Window lower = conv_transpose_window(node_of("ConvTranspose", fixed), x, w);
  EXPECT_EQ(lower.out, Ints{5});
  EXPECT_EQ(lower.pads_begin, Ints{2});
  EXPECT_EQ(lower.pads_end, Ints{1});
  const Window same = conv_transpose_window(
      node_of("ConvTranspose", {{"strides", Ints{2}}, {"auto_pad", std::string("SAME_UPPER")}}), x, w);
  EXPECT_EQ(same.out, Ints{6});
  EXPECT_EQ(same.pads_begin, Ints{1});
}

TEST(Window, ErrorsNameTheValues) {
  EXPECT_EQ(error_of([] { conv_window(node_of("Conv", {{"strides", Ints{0}}}), {1, 1, 6}, {1, 1, 3}); },
                     ErrorKind::bad_model),
            "Conv 'n': attribute strides contains 0; legal values are 1 to 1073741824");
  EXPECT_EQ(
      error_of([] { conv_window(node_of("Conv", {{"pads", Ints{1}}}), {1, 1, 6}, {1, 1, 3}); }, ErrorKind::bad_model),
      "Conv 'n': attribute pads has 1 entries, expected 2");
  EXPECT_EQ(
      error_of([] { conv_window(node_of("Conv", {}), {1, 1, 2}, {1, 1, 3}); }, ErrorKind::bad_model),
      "Conv 'n': spatial axis 0 has 2 elements and padding 0+0, less than the window of 3 (kernel 3, dilation 1)");
  EXPECT_EQ(error_of([] { conv_window(node_of("Conv", {{"auto_pad", std::string("SAME")}}), {1, 1, 6}, {1, 1, 3}); },
                     ErrorKind::bad_model),
            "Conv 'n': attribute auto_pad is 'SAME'; legal values are NOTSET, SAME_UPPER, SAME_LOWER and VALID");
}

TEST(Window, InsideIsTheRangeOfPositionsThatReadTheInput) {
  for (int64_t stride = 1; stride < 4; ++stride) {
    for (int64_t offset = -5; offset < 8; ++offset) {
      const Range range = inside(6, stride, offset, 7);
      for (int64_t i = 0; i < 6; ++i) {
        const int64_t at = i * stride + offset;
        EXPECT_EQ(i >= range.begin && i < range.end, at >= 0 && at < 7) << stride << " " << offset << " " << i;
      }
    }
  }
}

/// The table of one axis of `in` elements resized to `out`.
ResizeAxis axis_of(Attrs attrs, int64_t in, int64_t out) {
  const Tensor sizes = Tensor::of<int64_t>({1}, {out});
  return resize_plan(node_of("Resize", std::move(attrs)), {in}, {.sizes = &sizes}).axes.at(0);
}

TEST(ResizeTables, LinearWeightsOfHalfPixels) {
  const ResizeAxis axis = axis_of({{"mode", std::string("linear")}}, 2, 4);
  EXPECT_EQ(axis.taps, 2);
  EXPECT_EQ(axis.index, (Ints{0, 0, 0, 1, 0, 1, 1, 1}));
  EXPECT_EQ(axis.weight, (std::vector<double>{0.25, 0.75, 0.75, 0.25, 0.25, 0.75, 0.75, 0.25}));
  EXPECT_FALSE(axis.identity());
  EXPECT_TRUE(axis_of({{"mode", std::string("linear")}}, 5, 5).identity());
}

TEST(ResizeTables, NearestModesDifferOnTies) {
  const auto of = [](const char* mode) {
    return axis_of({{"nearest_mode", std::string(mode)}, {"coordinate_transformation_mode", std::string("asymmetric")}},
                   4, 8)
        .index;
  };
  EXPECT_EQ(of("floor"), (Ints{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(of("ceil"), (Ints{0, 1, 1, 2, 2, 3, 3, 3}));
  EXPECT_EQ(of("round_prefer_floor"), (Ints{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(of("round_prefer_ceil"), (Ints{0, 1, 1, 2, 2, 3, 3, 3}));
}

TEST(ResizeTables, InexactScalesRoundAsFloats) {
  const Tensor scales = Tensor::of<float>({1}, {2.6F});
  const Node node = node_of("Resize", {{"nearest_mode", std::string("floor")},
                                       {"coordinate_transformation_mode", std::string("asymmetric")}});
  EXPECT_EQ(resize_shape(node, {5}, {.scales = &scales}), Shape{13});
  const Tensor third = Tensor::of<float>({1}, {1.0F / 3});
  const Tensor empty(DType::f32, {0});
  EXPECT_EQ(resize_plan(node, {30}, {.roi = &empty, .scales = &third}).axes[0].index[3], 9);
}

TEST(ResizeTables, CubicAndAntialiasedWeightsSumToOne) {
  for (const char* mode : {"linear", "cubic"}) {
    for (const int64_t antialias : {0, 1}) {
      const ResizeAxis axis = axis_of({{"mode", std::string(mode)}, {"antialias", antialias}}, 9, 4);
      for (int64_t o = 0; o < axis.out; ++o) {
        double sum = 0;
        for (int64_t t = 0; t < axis.taps; ++t) sum += axis.weight[static_cast<size_t>(o * axis.taps + t)];
        EXPECT_NEAR(sum, 1, 1e-12) << mode << antialias;
      }
      EXPECT_EQ(axis.taps, antialias == 0 ? (mode[0] == 'l' ? 2 : 4) : (mode[0] == 'l' ? 6 : 10));
    }
  }
}

TEST(ResizeTables, CropMarksElementsOutside) {
  const Tensor sizes = Tensor::of<int64_t>({1}, {3});
  const Tensor roi = Tensor::of<float>({2}, {0.0F, 1.5F});
  const ResizePlan plan =
      resize_plan(node_of("Resize", {{"mode", std::string("linear")},
                                     {"extrapolation_value", 7.0F},
                                     {"coordinate_transformation_mode", std::string("tf_crop_and_resize")}}),
                  {5}, {.roi = &roi, .sizes = &sizes});
  EXPECT_EQ(plan.axes[0].outside, (std::vector<uint8_t>{0, 0, 1}));
  EXPECT_EQ(plan.extrapolation, 7);
}

TEST(ResizeTables, NanRegionsReadTheFirstElement) {
  const Tensor sizes = Tensor::of<int64_t>({1}, {2});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor roi = Tensor::of<float>({2}, {nan, nan});
  const Node node = node_of("Resize", {{"coordinate_transformation_mode", std::string("tf_crop_and_resize")}});
  EXPECT_EQ(resize_plan(node, {5}, {.roi = &roi, .sizes = &sizes}).axes[0].index, (Ints{0, 0}));
}

TEST(ResizeTables, TooManyEntriesAreRefused) {
  const Tensor scales = Tensor::of<float>({1}, {1e-8F});
  const Node node = node_of("Resize", {{"mode", std::string("linear")}, {"antialias", int64_t{1}}});
  EXPECT_EQ(error_of([&] { resize_plan(node, {300000000}, {.scales = &scales}); }, ErrorKind::bad_model),
            "Resize 'n': 3 output elements on one axis need 134217728 input elements each; the limit is 2^26 in all");
}

TEST(ResizeTables, AspectRatioPolicies) {
  const Tensor sizes = Tensor::of<int64_t>({2}, {6, 20});
  const auto out = [&](const char* policy) {
    return resize_shape(node_of("Resize", {{"keep_aspect_ratio_policy", std::string(policy)}, {"axes", Ints{1, 2}}}),
                        {3, 4, 5}, {.sizes = &sizes});
  };
  EXPECT_EQ(out("stretch"), (Shape{3, 6, 20}));
  EXPECT_EQ(out("not_larger"), (Shape{3, 6, 8}));
  EXPECT_EQ(out("not_smaller"), (Shape{3, 16, 20}));
}

TEST(ResizeTables, IllegalRequestsNameTheValues) {
  const Tensor scales = Tensor::of<float>({2}, {1.0F, -2.0F});
  EXPECT_EQ(error_of([&] { resize_plan(node_of("Resize", {}), {3, 4}, {.scales = &scales}); }, ErrorKind::bad_model),
            "Resize 'n': scale is -2, expected more than 0");
  EXPECT_EQ(error_of([] { resize_plan(node_of("Resize", {}), {3, 4}, {}); }, ErrorKind::bad_model),
            "Resize 'n': has neither scales nor sizes, expected one of them");
  EXPECT_EQ(
      error_of([&] { resize_plan(node_of("Resize", {{"mode", std::string("area")}}), {3, 4}, {.scales = &scales}); },
               ErrorKind::bad_model),
      "Resize 'n': attribute mode is 'area'; legal values are nearest, linear, cubic");
}

}  // namespace
}  // namespace kilter
