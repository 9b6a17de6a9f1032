#include "profile/report/page.h"

#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"

namespace kilter::embedded {
extern const std::string_view page_html;  ///< placeholders: {{title}}, {{style}}, {{sections}}, {{data}}, {{script}}
extern const std::string_view page_css, page_js;
}  // namespace kilter::embedded

namespace kilter::profile {
namespace {

using nlohmann::json;

/// Escapes text between tags, so that none of it is interpreted as markup.
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

/// Escapes JSON for a script element, which would end at any "</script": replaces every '<'.
std::string script_json(const json& value) {
  std::string out;
  for (char c : json_text(value)) {
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

/// Fills in the placeholders {{name}} of the template. Inserted text is not searched for placeholders.
std::string filled(std::string_view page, const std::map<std::string_view, std::string>& places) {
  std::string out;
  while (!page.empty()) {
    const size_t open = page.find("{{");
    out += page.substr(0, open);
    if (open == std::string_view::npos) break;
    const size_t close = page.find("}}", open);
    require(close != std::string_view::npos, "page: {{{{ without }}}}");
    const auto place = places.find(page.substr(open + 2, close - open - 2));
    require(place != places.end(), "page: unknown place {}", page.substr(open, close + 2 - open));
    out += place->second;
    page.remove_prefix(close + 2);
  }
  return out;
}

}  // namespace

std::string html_page(const std::string& title, const PageParts& parts, const json& data) {
  // dump() replaces bytes that are not UTF-8, so reading the result back gives a valid title.
  const std::string clean = parse_json(json_text(json(title))).get<std::string>();
  return filled(embedded::page_html, {{"title", escaped(clean)},
                                      {"style", std::string(embedded::page_css) + std::string(parts.style)},
                                      {"sections", std::string(parts.sections)},
                                      {"data", script_json(data)},
                                      {"script", std::string(embedded::page_js) + std::string(parts.script)}});
}

}  // namespace kilter::profile
