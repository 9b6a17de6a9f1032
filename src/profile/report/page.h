// A self-contained HTML file with data and the scripts that draw it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace kilter::profile {

/// The parts that one kind of page adds to those that all pages share (page/page.html, page/style.css and the first
/// scripts of CMakeLists.txt).
struct PageParts {
  std::string_view sections;  ///< HTML inside <main>
  std::string_view style;     ///< CSS
  std::string_view script;
};

/// Returns the page for `data`, which the scripts access as pageData(). The data and the title may contain anything,
/// even bytes that are not UTF-8; they appear as text, never as markup.
std::string html_page(const std::string& title, const PageParts& parts, const nlohmann::json& data);

}  // namespace kilter::profile
