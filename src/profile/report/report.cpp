#include "profile/report/report.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"

namespace kilter::embedded {
extern const std::string_view report_html;  ///< with the places {{title}}, {{style}}, {{data}}, {{script}}
extern const std::string_view report_css, report_js;
}  // namespace kilter::embedded

namespace kilter::profile {
namespace {

using nlohmann::json;

/// Text between tags: nothing of it is markup.
std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

/// JSON inside a script element, which ends at "</script" wherever that stands: no '<' is left.
std::string script_json(const json& value) {
  std::string out;
  for (char c : value.dump(-1, ' ', false, json::error_handler_t::replace)) {
    switch (c) {
      case '<':
        out += "\\u003c";
        break;
      case '>':
        out += "\\u003e";
        break;
      case '&':
        out += "\\u0026";
        break;
      default:
        out += c;
    }
  }
  return out;
}

/// Nanoseconds are fine enough to draw; the digits behind would be most of a large file.
json rounded_us(const json& us) {
  return us.is_number() ? json(std::round(us.get<double>() * 1e3) / 1e3) : json(nullptr);
}

/// Events as [row, thread, begin, end]: thousands of them need not spell their fields.
json short_events(const json& timeline) {
  json events = json::array();
  for (const json& e : timeline) {
    events.push_back({e.at("row"), e.at("thread"), rounded_us(e.at("begin_us")), rounded_us(e.at("end_us"))});
  }
  return events;
}

/// The template with its places {{name}} filled; what is filled in is not looked at again.
std::string filled(std::string_view page, const std::map<std::string_view, std::string_view>& places) {
  std::string out;
  while (!page.empty()) {
    const size_t open = page.find("{{");
    out += page.substr(0, open);
    if (open == std::string_view::npos) break;
    const size_t close = page.find("}}", open);
    require(close != std::string_view::npos, "report page: {{{{ without }}}}");
    const auto place = places.find(page.substr(open + 2, close - open - 2));
    require(place != places.end(), "report page: unknown place {}", page.substr(open, close + 2 - open));
    out += place->second;
    page.remove_prefix(close + 2);
  }
  return out;
}

}  // namespace

std::string html_report(const json& profile) {
  try {
    json data = profile;
    data.at("rows");
    data["timeline"] = short_events(profile.at("timeline"));
    const json model = json(profile.at("model").get<std::string>());
    // dump() mends bytes that are not UTF-8; read back, the title is clean.
    const std::string title =
        json::parse(model.dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
    return filled(embedded::report_html, {{"title", escaped(title + " - Kilter profile")},
                                          {"style", embedded::report_css},
                                          {"data", script_json(data)},
                                          {"script", embedded::report_js}});
  } catch (const json::exception& e) {
    fail(ErrorKind::bad_input, "HTML report: the profile lacks a field or has it of another type: {}", e.what());
  }
}

}  // namespace kilter::profile
