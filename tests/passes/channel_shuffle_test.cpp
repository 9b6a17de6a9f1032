// Channel shuffles as exporters write them: they become one Gather of channels if it has the same result.
#include <gtest/gtest.h>

#include "pass_runner.h"

namespace kilter {
namespace {

/// The exported shuffle of six channels in two groups, with one part of its text replaced.
std::string exported(std::string_view from = "", std::string_view to = "") {
  return with(R"(graph "g" {
    input %x: f32[2,6,3,5]
    const %split: i64[5](2, 2, 3, 3, 5)
    const %shape: i64[4](2, 6, 3, 5)
    %a: f32[2,2,3,3,5] = Reshape@14 "a"(%x, %split)
    %b: f32[2,3,2,3,5] = Transpose@13 "b" {perm=[0, 2, 1, 3, 4]}(%a)
    %y: f32[2,6,3,5] = Reshape@14 "y"(%b, %shape)
    output "y" %y
  })",
              from, to);
}

TEST(ChannelShuffle, BecomesOneGather) {
  const std::string text = after(recognise_patterns, exported());
  EXPECT_NE(text.find("%y: f32[2,6,3,5] = Gather@"), std::string::npos) << text;
  EXPECT_NE(text.find("{axis=1}(%x, "), std::string::npos) << text;
  EXPECT_EQ(text.find("Transpose"), std::string::npos) << text;
}

TEST(ChannelShuffle, NearMissesAreUnchanged) {
  const auto stays = [](std::string_view from, std::string_view to) {
    EXPECT_EQ(after(recognise_patterns, exported(from, to)).find("Gather"), std::string::npos) << to;
  };
  stays("%b: f32[2,3,2,3,5] = Transpose@13 \"b\" {perm=[0, 2, 1, 3, 4]}",
        "%b: f32[2,2,3,5,3] = Transpose@13 \"b\" {perm=[0, 1, 3, 4, 2]}");
  stays("output \"y\" %y", "output \"y\" %y\n    output \"b\" %b");
  stays("%y: f32[2,6,3,5] = Reshape@14 \"y\"(%b, %shape)",
        "const %other: i64[4](2, 6, 5, 3)\n    %y: f32[2,6,5,3] = Reshape@14 \"y\"(%b, %other)");
}

}  // namespace
}  // namespace kilter
