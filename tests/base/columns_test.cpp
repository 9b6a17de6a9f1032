#include "base/columns.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kilter {
namespace {

TEST(Columns, LongNamesLoseTheirMiddle) {
  EXPECT_EQ(without_middle("conv1", 8), "conv1");
  EXPECT_EQ(without_middle("conv1234", 8), "conv1234");
  EXPECT_EQ(without_middle("layer4.0.conv2.relu", 11), "layer..relu");
  EXPECT_EQ(without_middle("abcdef", 4), "a..f");
}

TEST(Columns, DistinguishingMiddlesAreKept) {
  const std::vector<std::string> names{"/backbone/blocks.1/branch/convolution",
                                       "/backbone/blocks.23/branch/convolution", "/head/a_classifier_of_images",
                                       "conv"};
  const std::vector<std::string> expected{"..cks.1..convolution", "..cks.23..onvolution", "/head/a_c..of_images",
                                          "conv"};
  EXPECT_EQ(short_names(names, 20), expected);
  EXPECT_EQ(short_names(names, 8), (std::vector<std::string>{"/ba..ion", "/ba..ion", "/he..ges", "conv"}));
  const std::vector<std::string> same{"/model/one_long_name", "/model/one_long_name"};
  EXPECT_EQ(short_names(same, 12), (std::vector<std::string>{"/mode.._name", "/mode.._name"}));
}

TEST(Columns, MultibyteCharactersAreNotSplit) {
  EXPECT_EQ(without_middle("\u00E9\u00E9\u00E9\u00E9\u00E9", 8), "\u00E9..\u00E9");  // three bytes on each side
  EXPECT_EQ(without_middle("\u5C42\u5C42\u5C42\u5C42", 6), "..");                    // two bytes on each side
  EXPECT_EQ(beginning("a\u5C42b", 5), "a\u5C42b");
  EXPECT_EQ(beginning("a\u5C42b", 4), "a\u5C42");
  EXPECT_EQ(beginning("a\u5C42b", 3), "a");
  EXPECT_EQ(beginning("\u5C42", 0), "");
}

TEST(Columns, CommonPrefixEndsAtSeparator) {
  const std::vector<std::string> paths{"/model/layer1/conv", "/model/layer2/conv", "/model/last"};
  EXPECT_EQ(common_start(paths), "/model/");
  const std::vector<std::string> dots{"features.2.expand", "features.3.expand"};
  EXPECT_EQ(common_start(dots), "features.");
  const std::vector<std::string> none{"conv1", "conv2"};
  EXPECT_EQ(common_start(none), "");
  const std::vector<std::string> tiny{"m/conv1", "m/conv2"};
  EXPECT_EQ(common_start(tiny), "");
  const std::vector<std::string> one{"/model/conv"};
  EXPECT_EQ(common_start(one), "");
  EXPECT_EQ(common_start({}), "");
}

TEST(Columns, LinesAreBrokenAtSpaces) {
  EXPECT_EQ(hanging("one two three", 2, 0), "one two three");
  EXPECT_EQ(hanging("one two three", 2, 13), "one two three");
  EXPECT_EQ(hanging("one two three four", 2, 8), "one two\n  three\n  four");
  EXPECT_EQ(hanging("unbreakable", 2, 5), "unbreakable");
  EXPECT_EQ(hanging("unbreakable word", 2, 5), "unbreakable\n  word");
}

}  // namespace
}  // namespace kilter
