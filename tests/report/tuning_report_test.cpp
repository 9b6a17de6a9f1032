#include "profile/report/tuning_report.h"

#include "base/error.h"
#include "page_text.h"

namespace kilter::profile {
namespace {

using nlohmann::json;

json small_run(const std::string& model) {
  const json none = json::array();
  return {{"model", model},   {"tasks", {{{"problem", "conv2d"}}}},
          {"phases", none},   {"settings", json::object()},
          {"conditions", {}}, {"trace", {{"points", none}, {"gains", none}, {"spans", none}, {"races", none}}}};
}

TEST(TuningReport, HoldsTheRun) {
  const json run = small_run("net");
  const std::string page = html_tuning_report(run);
  EXPECT_NE(page.find("<title>net - Kilter tuning</title>"), std::string::npos);
  EXPECT_EQ(embedded_json(page), run);
  EXPECT_EQ(page.find("{{"), std::string::npos);
  expect_loads_nothing(page);
}

TEST(TuningReport, TextsAreEscaped) {
  const std::string evil = "</script></title><script>x</script><!--<script>&lt; {{script}} {{data}}";
  const std::string plain = html_tuning_report(small_run("net"));
  json run = small_run(evil);
  run["tasks"][0]["problem"] = evil;
  const std::string page = html_tuning_report(run);
  for (const char* markup : {"<script", "</script", "</title", "<!--"})
    EXPECT_EQ(count(page, markup), count(plain, markup));
  EXPECT_EQ(embedded_json(page)["tasks"][0]["problem"], evil);
}

TEST(TuningReport, MissingRunFieldsAreErrors) {
  json run = small_run("net");
  run["trace"].erase("races");
  try {
    html_tuning_report(run);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::bad_input);
    EXPECT_NE(std::string(e.what()).find("HTML tuning report: a field of the run is missing or has the wrong type"),
              std::string::npos)
        << e.what();
    EXPECT_NE(std::string(e.what()).find("'races'"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace kilter::profile
