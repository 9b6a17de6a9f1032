#include "base/shape_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "error_of.h"

namespace kilter {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

ShapeRanges ranges(const std::vector<std::string>& texts) {
  ShapeRanges made = ShapeRanges::parse(texts);
  made.resolve();
  return made;
}

std::string usage_of(const std::vector<std::string>& texts) {
  return error_of([&] { ranges(texts); }, ErrorKind::usage);
}

TEST(ShapeRanges, TextRoundTrips) {
  for (const char* text : {"x=1x3x{320..960:32}x{64..800}", "x={1,2,8}x{n=0..4}", "x=scalar", "a=b=2x{n=1..3}",
                           "ids={b=1..4}x{seq=1,8,64} mask={b=1..4}x{seq=1,8,64}"}) {
    std::vector<std::string> parts;
    for (size_t begin = 0; begin < std::string(text).size();) {
      const size_t end = std::min(std::string(text).find(' ', begin), std::string(text).size());
      parts.push_back(std::string(text).substr(begin, end - begin));
      begin = end + 1;
    }
    EXPECT_EQ(ranges(parts).text(), text);
  }
  EXPECT_EQ(ranges({"x={8,1,8}x{5..9:3}x{4..4}x{n=7}"}).text(), "x={1,8}x{5..8:3}x4x7");
  EXPECT_EQ(ranges({"ids=1x{seq=1..512}", "mask=1x{seq}"}).text(), "ids=1x{seq=1..512} mask=1x{seq=1..512}");
}

TEST(ShapeRanges, IllegalTextsAreRefused) {
  const std::string legal =
      "; expected numbers joined by x, or {LOW..HIGH}, {LOW..HIGH:STEP}, a list {1,2,4}, or {NAME=...} in place of a "
      "number; put the value in quotes, since shells expand braces";
  EXPECT_EQ(usage_of({"x=1x{3..1}"}), "--shapes x=1x{3..1}: the range 3..1 is empty" + legal);
  EXPECT_EQ(usage_of({"x={1..9:0}"}), "--shapes x={1..9:0}: the step of a range is 0" + legal);
  EXPECT_EQ(usage_of({"x=1xq"}), "--shapes x=1xq: 'q' is not a size from 0 to 1099511627776" + legal);
  EXPECT_EQ(usage_of({"x={1..}"}), "--shapes x={1..}: '' is not a size from 0 to 1099511627776" + legal);
  EXPECT_EQ(usage_of({"x={-1,2}"}), "--shapes x={-1,2}: '-1' is not a size from 0 to 1099511627776" + legal);
  EXPECT_EQ(usage_of({"x={}"}), "--shapes x={}: '' is not a size from 0 to 1099511627776" + legal);
  EXPECT_EQ(usage_of({"x={=1..2}"}), "--shapes x={=1..2}: a name is empty" + legal);
  EXPECT_EQ(usage_of({"x={1..2"}), "--shapes x={1..2: the braces do not match" + legal);
  EXPECT_EQ(usage_of({"x={1..2}s"}), "--shapes x={1..2}s: 's' follows a brace" + legal);
  EXPECT_EQ(usage_of({"1x{n=3}"}),
            "--shapes 1x{n=3}: expected NAME=SHAPE, such as "
            "'x=1x3x{320..960:32}x{320..960:32}'; put the value in quotes, since shells expand "
            "braces");
  EXPECT_EQ(usage_of({"x=1x3", "x=2x3"}),
            "--shapes x=2x3: input 'x' already has the shape 1x3; give all its sizes in "
            "one value, and put the value in quotes, since shells expand braces");
}

TEST(ShapeRanges, EqualNamesMustHaveEqualSizes) {
  EXPECT_EQ(usage_of({"ids=1x{seq}"}),
            "--shapes: dimension 1 of input 'ids' is {seq}, but no dimension of this name has "
            "sizes; give them once, as in {seq=1..512}");
  EXPECT_EQ(
      usage_of({"a={n=1..4}", "b=2x{n=1..5}"}),
      "--shapes: dimension 0 of input 'a' and dimension 1 of input 'b' are both named 'n', but have the sizes {1..4} "
      "and {1..5}; dimensions of one name always have the same size: give both the same sizes, or different names, as "
      "in {other=1..8}");
}

TEST(ShapeRanges, ShapesOutsideAreRefused) {
  const ShapeRanges r = ranges({"x=1x3x{h=320..960:32}x{2,4}", "y={h}"});
  const auto bad = [&](const ShapeRanges::Shapes& shapes) {
    return error_of([&] { r.check(shapes, "m.onnx"); }, ErrorKind::bad_input);
  };
  EXPECT_EQ(bad({{"x", {1, 3, 352, 4}}, {"y", {352}}, {"z", {7}}}), "no error");
  EXPECT_EQ(
      bad({{"x", {1, 3, 330, 4}}}),
      "m.onnx: input 'x': dimension 2 ('h') is 330; expected {320..960:32}, of which 320 and 352 are the nearest; "
      "give the input such a size, or declare 330 as well (--shapes) when the network is compiled");
  EXPECT_THAT(bad({{"x", {1, 3, 8, 4}}}), HasSubstr("expected {320..960:32}, of which 320 is the nearest;"));
  EXPECT_THAT(bad({{"x", {1, 3, 992, 4}}}), HasSubstr("expected {320..960:32}, of which 960 is the nearest;"));
  EXPECT_THAT(bad({{"x", {1, 3, 352, 3}}}),
              StartsWith("m.onnx: input 'x': dimension 3 is 3; expected {2,4}, of which 2 and 4 are the nearest; "));
  EXPECT_THAT(bad({{"x", {2, 3, 352, 4}}}), StartsWith("m.onnx: input 'x': dimension 0 is 2; expected 1; give "));
  EXPECT_EQ(bad({{"x", {3, 352}}}),
            "m.onnx: input 'x' has shape 3x352 with 2 dimensions; expected 4 dimensions, as in its declared sizes "
            "1x3x{h=320..960:32}x{2,4}");
  EXPECT_EQ(
      bad({{"x", {1, 3, 352, 4}}, {"y", {320}}}),
      "m.onnx: input 'y': dimension 0 ('h') is 320, but dimension 2 of input 'x' is 352; expected the same size, "
      "since both have the name 'h'; if they may differ, give them different names, as in {other=1..8} (--shapes)");
}

TEST(ShapeRanges, AllShapesAreInOrder) {
  const ShapeRanges r = ranges({"x={1,2}x{n=5..9:4}", "y={n}"});
  EXPECT_EQ(r.count(), 4);
  using Shapes = ShapeRanges::Shapes;
  EXPECT_THAT(r.all(), ElementsAre(Shapes{{"x", {1, 5}}, {"y", {5}}}, Shapes{{"x", {1, 9}}, {"y", {9}}},
                                   Shapes{{"x", {2, 5}}, {"y", {5}}}, Shapes{{"x", {2, 9}}, {"y", {9}}}));
  EXPECT_EQ(ShapeRanges().count(), 1);
  EXPECT_EQ(ranges({"x={1..1000000000}x{1..1000000000}x{1..1000000000}"}).count(), INT64_MAX);
}

TEST(ShapeRanges, ASampleIsSpreadOverTheRanges) {
  const ShapeRanges r = ranges({"x=1x{320..960:32}x{64..800}"});
  const auto sample = r.spread(16);
  EXPECT_EQ(sample.size(), 16U);
  EXPECT_EQ(std::set<ShapeRanges::Shapes>(sample.begin(), sample.end()).size(), 16U);
  EXPECT_EQ(sample[0].at("x"), (Shape{1, 320, 64}));
  EXPECT_EQ(sample[1].at("x"), (Shape{1, 960, 800}));
  EXPECT_EQ(sample[2].at("x"), (Shape{1, 960, 64}));
  EXPECT_EQ(sample[3].at("x"), (Shape{1, 320, 800}));
  int inside = 0;
  for (const auto& shapes : sample) {
    EXPECT_NO_THROW(r.check(shapes, "m"));
    const Shape& s = shapes.at("x");
    inside += s[1] > 320 && s[1] < 960 && s[2] > 64 && s[2] < 800 ? 1 : 0;
  }
  EXPECT_GE(inside, 8);
  EXPECT_EQ(r.spread(16), sample) << "the sample is the same every time";
  EXPECT_EQ(ranges({"x={1..5}"}).spread(16).size(), 5U);
  EXPECT_EQ(r.spread(1).size(), 1U);
}

}  // namespace
}  // namespace kilter
