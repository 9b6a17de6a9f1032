#include "profile/report/report.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "page_text.h"

namespace kilter::profile {
namespace {

using nlohmann::json;

json small_profile(const std::string& model) {
  return {{"model", model}, {"rows", {{{"name", "a"}}}}, {"timeline", json::array()}};
}

TEST(Report, HoldsTheProfile) {
  json profile = small_profile("net");
  profile["sum_ms"] = 1.25;
  profile["timeline"] = {{{"row", 0}, {"thread", 1}, {"begin_us", 0.12345678}, {"end_us", 7.0}}};
  const std::string page = html_report(profile);
  EXPECT_NE(page.find("<title>net - Kilter profile</title>"), std::string::npos);
  const json data = embedded_json(page);
  EXPECT_EQ(data["sum_ms"], 1.25);
  EXPECT_EQ(data["rows"], profile["rows"]);
  EXPECT_EQ(data["timeline"], json({{0, 1, 0.123, 7.0}}));
  EXPECT_EQ(page.find("{{"), std::string::npos);
}

TEST(Report, ModelTextsAreEscaped) {
  const std::string plain = html_report(small_profile("net"));
  const std::string evil = "</script></title><script>x</script><!--<script>&lt; {{script}} {{data}}";
  json profile = small_profile(evil);
  profile["rows"][0]["name"] = evil;
  const std::string page = html_report(profile);
  for (const char* markup : {"<script", "</script", "</title", "<!--"})
    EXPECT_EQ(count(page, markup), count(plain, markup));
  EXPECT_EQ(count(page, "{{script}}"), 3u);  // as text: in the title, the model and the row
  EXPECT_EQ(embedded_json(page)["rows"][0]["name"], evil);
  EXPECT_EQ(embedded_json(page)["model"], evil);
}

TEST(Report, BytesThatAreNotUtf8AreReplaced) {
  const std::string page = html_report(small_profile("a\xff"));
  EXPECT_NE(page.find("<title>a\xef\xbf\xbd - Kilter"), std::string::npos);
  EXPECT_EQ(embedded_json(page)["model"], "a\xef\xbf\xbd");
}

TEST(Report, FiguresThatAreNotFiniteAreNull) {
  json profile = small_profile("net");
  profile["total_ms"] = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(embedded_json(html_report(profile))["total_ms"].is_null());
}

TEST(Report, LoadsNoExternalResources) {
  const std::string page = html_report(small_profile("net"));
  expect_loads_nothing(page);
}

TEST(Report, MissingProfileFieldsAreErrors) {
  const auto message = [](const json& profile) -> std::string {
    try {
      html_report(profile);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::bad_input);
      return e.what();
    }
    return "no error";
  };
  json profile = small_profile("net");
  profile.erase("rows");
  EXPECT_NE(message(profile).find("HTML report: a field of the profile is missing or has the wrong type"),
            std::string::npos);
  EXPECT_NE(message(profile).find("'rows'"), std::string::npos);
  profile = small_profile("net");
  profile["model"] = 3;
  EXPECT_NE(message(profile).find("must be string"), std::string::npos);
  EXPECT_NE(message(json("text")).find("HTML report"), std::string::npos);
}

}  // namespace
}  // namespace kilter::profile
