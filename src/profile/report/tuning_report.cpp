#include "profile/report/tuning_report.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "profile/report/page.h"

namespace kilter::embedded {
extern const std::string_view tuning_html, tuning_css, tuning_js;
}  // namespace kilter::embedded

namespace kilter::profile {

std::string html_tuning_report(const nlohmann::json& run) {
  try {
    for (const char* field : {"tasks", "phases", "settings", "conditions"}) run.at(field);
    for (const char* field : {"points", "gains", "spans", "races"}) run.at("trace").at(field);
    return html_page(run.at("model").get<std::string>() + " - Kilter tuning",
                     {embedded::tuning_html, embedded::tuning_css, embedded::tuning_js}, run);
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorKind::bad_input, "HTML tuning report: a field of the run is missing or has the wrong type: {}", e.what());
  }
}

}  // namespace kilter::profile
