#include "base/json_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace kilter {
namespace {

std::string nested(int depth) {
  const auto n = static_cast<size_t>(depth);
  return std::string(n, '[') + std::string(n, ']');
}

TEST(JsonText, InvalidUtf8IsReplaced) {
  EXPECT_EQ(json_text(nlohmann::json{{"a", "\xc3\x28"}}), "{\"a\":\"\xEF\xBF\xBD(\"}");
  EXPECT_EQ(json_text(nlohmann::json{{"\xff", 1}}), "{\"\xEF\xBF\xBD\":1}");
  EXPECT_EQ(json_text(nlohmann::json("\x1b\n\x07")), R"("\u001b\n\u0007")");
  EXPECT_EQ(json_text(nlohmann::json{1, std::numeric_limits<double>::infinity()}), "[1,null]");
  EXPECT_EQ(json_text(nlohmann::ordered_json{{"b", 1}, {"a", 2}}), R"({"b":1,"a":2})");
  EXPECT_EQ(json_text(nlohmann::json{1}, 2), "[\n  1\n]");
}

TEST(JsonText, TextNestedTooDeeplyIsAnError) {
  EXPECT_EQ(parse_json(nested(kMostJsonDepth)).size(), 1U);
  for (const int depth : {kMostJsonDepth + 1, 1000000}) {
    EXPECT_TRUE(try_parse_json(nested(depth)).is_discarded());
    try {
      parse_json(nested(depth));
      FAIL() << "no error";
    } catch (const nlohmann::json::parse_error& error) {
      EXPECT_NE(std::string(error.what()).find("nested more than 200 deep"), std::string::npos) << error.what();
    }
  }
  // Brackets inside strings do not count.
  const std::string inside = "[\"" + std::string(1000, '[') + "\\\"" + std::string(1000, '{') + "\"]";
  EXPECT_EQ(parse_json(inside).size(), 1U);
  EXPECT_TRUE(try_parse_json("[1").is_discarded());
}

}  // namespace
}  // namespace kilter
