// The storage of integers as bytes: which values are stored in this way, with which zero, and which stay in f32.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ops/support/builder.h"
#include "pass_runner.h"

namespace kilter {
namespace {

/// A RoundedSum %r of the range `range`, and nodes that read it.
std::string network(std::string_view nodes, std::string_view range = "high=252, low=-3") {
  return fmt::format(R"(graph "g" {{
    input %x: f32[1,8,4,4]
    input %qx: u8[1,8,4,4]
    input %codes: i8[1,8,4,4]
    const %one: f64[](1)
    const %unit: f32[](1)
    const %half: f32[](0.5)
    const %zero: f64[](0)
    const %z: u8[](7)
    const %iz: i8[](-3)
    %r: f32[1,8,4,4] = kilter::RoundedSum@1 "r" {{{}}}(%x, %one, %zero)
    {}
  }})",
                     range, nodes);
}

/// How a value is stored after the pass: the text of its type without element type and shape, or "" for f32.
std::string storage(std::string_view text, std::string_view value) {
  Graph graph = parse_graph(text);
  verify(graph);
  verify_types(graph);
  run_pass(store_integers, graph);
  return stored_text(graph.type(graph.find_value(value)).layout);
}

constexpr std::string_view kSum = R"(%y: f32[1,8,4,4] = Add@14 "y"(%r, %x) output "y" %y)";

TEST(StoreIntegers, ZeroPointIsTheSmallestInteger) {
  EXPECT_EQ(storage(network(kSum), "r"), "u8+3");
  EXPECT_EQ(storage(network(kSum, "high=127, low=-128"), "r"), "u8+128");
  EXPECT_EQ(storage(network(kSum, "high=0, low=-255"), "r"), "u8+255");
  EXPECT_EQ(storage(network(kSum, "high=255, low=0"), "r"), "u8");
  EXPECT_EQ(storage(network(kSum, "high=200, low=100"), "r"), "u8") << "0 is stored too, in halos and unused lanes";
  EXPECT_EQ(storage(network(kSum, "high=-100, low=-200"), "r"), "u8+200");
  EXPECT_EQ(storage(network(kSum), "y"), "") << "its elements are not known to be integers";
}

TEST(StoreIntegers, TooWideRangesAreUnchanged) {
  EXPECT_EQ(storage(network(kSum, "high=253, low=-3"), "r"), "");
  EXPECT_EQ(storage(network(kSum, "high=0, low=-256"), "r"), "");
  EXPECT_EQ(storage(network(kSum, "high=300, low=250"), "r"), "");
}

TEST(StoreIntegers, ASecondRunChangesNothing) {
  EXPECT_EQ(after(store_integers, network(kSum)),
            "%r: f32[1,8,4,4]{u8+3} = kilter::RoundedSum@1 \"r\" {high=252, low=-3}(%x, %one, %zero)\n"
            "%y: f32[1,8,4,4] = Add@14 \"y\"(%r, %x)\n"
            "output \"y\" %y\n");
}

TEST(StoreIntegers, DecodedCodesOfScaleOne) {
  const auto decoded = [](std::string_view operands) {
    return storage(network(fmt::format(R"(%d: f32[1,8,4,4] = kilter::Dequantize@1 "d" {{to=1}}({})
                                          %y: f32[1,8,4,4] = Add@14 "y"(%d, %r) output "y" %y)",
                                       operands)),
                   "d");
  };
  EXPECT_EQ(decoded("%qx, %unit, %z"), "u8+7");
  EXPECT_EQ(decoded("%qx, %unit"), "u8");
  EXPECT_EQ(decoded("%codes, %unit, %iz"), "u8+125");
  EXPECT_EQ(decoded("%qx, %half, %z"), "");
}

TEST(StoreIntegers, NetworkInputsAndOutputsAreUnchanged) {
  EXPECT_EQ(storage(network(R"(%y: f32[1,8,4,4] = Add@14 "y"(%r, %x) output "y" %y output "r" %r)"), "r"), "");
  // A view of an output is stored like the output, and a view of an input like the input.
  EXPECT_EQ(storage(network(R"(%y: f32[1,128] = Flatten@13 "y"(%r) output "y" %y)"), "r"), "");
  const std::string joined = network(R"(%k: f32[1,16,4,4] = Concat@13 "k" {axis=1}(%r, %x)
                                        %y: f32[1,16,4,4] = Neg@13 "y"(%k) output "y" %y)");
  EXPECT_EQ(storage(joined, "r"), "");
  EXPECT_EQ(storage(joined, "k"), "");
}

TEST(StoreIntegers, ViewsShareOneStorageType) {
  const std::string text = network(R"(%s: f32[1,8,4,4] = kilter::RoundedSum@1 "s" {high=100, low=-50}(%x, %one, %zero)
    %k: f32[1,16,4,4] = Concat@13 "k" {axis=1}(%r, %s)
    %t: f32[1,4,4,16] = Transpose@13 "t" {perm=[0, 2, 3, 1]}(%k)
    %y: f32[1,4,4,16] = Neg@13 "y"(%t) output "y" %y)",
                                   "high=200, low=-3");
  for (const std::string_view value : {"r", "s", "k", "t"}) EXPECT_EQ(storage(text, value), "u8+50") << value;
  EXPECT_EQ(storage(text, "y"), "");
  const std::string wide = with(text, "high=200", "high=210");
  for (const std::string_view value : {"r", "s", "k", "t"}) EXPECT_EQ(storage(wide, value), "") << value;
}

TEST(StoreIntegers, PoolsAndLayoutChangesKeepIntegers) {
  const std::string text = network(R"(%b: f32[1,8,4,4]{c8 halo1,1,1,1} = kilter::Relayout@1 "b"(%r)
    %p: f32[1,8,4,4]{c8} = MaxPool@12 "p" {kernel_shape=[3, 3], pads=[1, 1, 1, 1]}(%b)
    %y: f32[1,8,4,4]{c8} = Neg@13 "y"(%p) %o: f32[1,8,4,4] = kilter::Relayout@1 "o"(%y) output "o" %o)");
  for (const std::string_view value : {"r", "b", "p"}) EXPECT_EQ(storage(text, value), "u8+3") << value;
  EXPECT_EQ(storage(with(text, "MaxPool@12 \"p\"", "AveragePool@11 \"p\""), "p"), "");
}

TEST(StoreIntegers, ConvolutionsReadBytesOnlyInBlocks) {
  const std::string plain = network(R"(%w: f32[4,8,1,1] = Expand@13 "w"(%half, %shape)
    %c: i32[1,4,4,4] = kilter::IntegerConv@1 "c"(%r, %w)
    %y: f32[1,4,4,4] = kilter::WeightedSum@1 "y"(%c, %one, %zero) output "y" %y)");
  const std::string shaped = with(plain, "const %one:", "const %shape: i64[4](4, 8, 1, 1)\n    const %one:");
  EXPECT_EQ(storage(shaped, "r"), "");
  EXPECT_EQ(storage(with(shaped, "%r: f32[1,8,4,4]", "%r: f32[1,8,4,4]{c8}"), "r"), "u8+3");
}

TEST(StoreIntegers, KernelsThatDoNotConvertReadFloats) {
  EXPECT_EQ(storage(network(R"(const %axis: i64[](1) %y: f32[1,8,4,4] = CumSum@14 "y"(%r, %axis) output "y" %y)"), "r"),
            "");
}

TEST(StoreIntegers, RewriteLimitAppliesToAllOrNone) {
  for (const int64_t most : {0, 1}) {
    Graph graph = parse_graph(network(R"(%s: f32[1,8,4,4] = kilter::RoundedSum@1 "s" {high=9, low=0}(%x, %one, %zero)
                                         %y: f32[1,8,4,4] = Add@14 "y"(%r, %s) output "y" %y)"));
    EXPECT_EQ(run_pass(store_integers, graph, "x86-64-v3", most), most);
    EXPECT_EQ(graph.type(graph.find_value("r")).layout.stored.has_value(), most == 1);
    EXPECT_EQ(graph.type(graph.find_value("s")).layout.stored.has_value(), most == 1);
  }
}

}  // namespace
}  // namespace kilter
