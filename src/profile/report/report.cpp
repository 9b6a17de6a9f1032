#include "profile/report/report.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "profile/report/page.h"

namespace kilter::embedded {
extern const std::string_view profile_html, profile_js;
}  // namespace kilter::embedded

namespace kilter::profile {
namespace {

using nlohmann::json;

/// Rounds to nanoseconds, which are precise enough for drawing. Further digits would make up most of a large file.
json rounded_us(const json& us) {
  return us.is_number() ? json(std::round(us.get<double>() * 1e3) / 1e3) : json(nullptr);
}

/// Encodes events as [row, thread, begin, end], so that thousands of them need not repeat the field names.
json short_events(const json& timeline) {
  json events = json::array();
  for (const json& e : timeline) {
    events.push_back({e.at("row"), e.at("thread"), rounded_us(e.at("begin_us")), rounded_us(e.at("end_us"))});
  }
  return events;
}

}  // namespace

std::string html_report(const json& profile) {
  try {
    json data = profile;
    data.at("rows");
    data["timeline"] = short_events(profile.at("timeline"));
    return html_page(profile.at("model").get<std::string>() + " - Kilter profile",
                     {embedded::profile_html, "", embedded::profile_js}, data);
  } catch (const json::exception& e) {
    fail(ErrorKind::bad_input, "HTML report: a field of the profile is missing or has the wrong type: {}", e.what());
  }
}

}  // namespace kilter::profile
