#include "base/text_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "base/text.h"

namespace kilter {
namespace {

TextTable layers() {
  TextTable table({{.title = "layer", .width = 20, .left = true, .least = 12},
                   {.title = "ms", .width = 8},
                   {.title = "GB/s", .width = 8, .rank = 1},
                   {.title = "cause", .left = true, .gap = 2}});
  table.add({"/model/stage_one/a_long_name_of_a_layer/Conv", "1.25", "10.0", "too few threads"});
  table.add({"/model/stage_two/another_long_name_of_a_layer/Conv", "0.25", "-", "none"});
  return table;
}

TEST(TextTable, TextsAreNotCutWithoutALimit) {
  EXPECT_EQ(layers().text({}, "--json has them"),
            "layer                                                    ms     GB/s  cause\n"
            "/model/stage_one/a_long_name_of_a_layer/Conv           1.25     10.0  too few threads\n"
            "/model/stage_two/another_long_name_of_a_layer/Conv     0.25        -  none\n");
}

TEST(TextTable, LongNamesAreShortened) {
  EXPECT_EQ(layers().text({.width = 60}, "--json has them"),
            "layer                           ms     GB/s  cause\n"
            "stage_one/a_.._layer/Conv     1.25     10.0  too few threads\n"
            "stage_two/an.._layer/Conv     0.25        -  none\n"
            "names begin with /model/\n");
}

TEST(TextTable, LeastImportantColumnsAreDropped) {
  EXPECT_EQ(layers().text({.width = 40}, "--json has them"),
            "layer                ms  cause\n"
            "..e_one../Conv     1.25  too few threads\n"
            "..e_two../Conv     0.25  none\n"
            "names begin with /model/\n"
            "left out at 40 columns: GB/s; --json has\n"
            "  them\n");
}

TEST(TextTable, NoLineExceedsTheWidth) {
  for (size_t width = 40; width < 120; ++width) {
    const std::string text = layers().text({.width = width}, "--json has them");
    for (const std::string_view line : split(text, '\n')) EXPECT_LE(line.size(), width) << line;
  }
}

TEST(TextTable, TitlesAreStyled) {
  const std::string text = layers().text({.head = [](const std::string& head) { return "<" + head + ">"; }}, "");
  EXPECT_THAT(text, testing::StartsWith("<layer "));
  EXPECT_THAT(text, testing::HasSubstr("cause>\n/model"));
}

TEST(TextTable, RowWithMissingCellIsAnInternalError) {
  TextTable table({{.title = "a"}, {.title = "b"}});
  try {
    table.add({"1"});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::internal);
    EXPECT_THAT(e.what(), testing::HasSubstr("a row of a table has 1 texts for 2 columns"));
  }
}

TEST(FitLines, WrappedLinesAreIndented) {
  EXPECT_EQ(fit_lines("  schedule    conv2d_direct vectors=2 rows=1 tile=8\nshort\n", 32),
            "  schedule    conv2d_direct\n"
            "              vectors=2 rows=1\n"
            "              tile=8\n"
            "short\n");
  EXPECT_EQ(fit_lines("a sentence that is longer than its line", 20), "a sentence that is\n  longer than its\n  line");
  EXPECT_EQ(fit_lines("no limit for this line", 0), "no limit for this line");
  EXPECT_EQ(fit_lines("", 10), "");
  EXPECT_EQ(fit_lines("see /model/stage/a_long_name_of_a_layer/Conv: why", 24), "see\n  /model/sta..ayer/Conv:\n  why");
}

TEST(FitLines, CommandsAndColouredLinesAreNotWrapped) {
  const std::string command = "  $ kilter tune a_model_with_a_name.onnx --threads 1";
  EXPECT_EQ(fit_lines(command, 20), command);
  const std::string coloured = "\033[1mlayer   ms   a title\033[0m";
  EXPECT_EQ(fit_lines(coloured, 20), coloured);
}

}  // namespace
}  // namespace kilter
