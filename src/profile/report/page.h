// One HTML file with data and the scripts that draw it, which loads nothing from anywhere.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace kilter::profile {

/// What a kind of page has beside what all pages share (page/page.html, page/style.css and the first scripts of
/// CMakeLists.txt).
struct PageParts {
  std::string_view sections;  ///< HTML: what stands inside <main>
  std::string_view style;     ///< CSS
  std::string_view script;
};

/// The page of `data`, which the scripts find as pageData(). Texts in it and in the title may hold anything, bytes that
/// are not UTF-8 too; they appear as text, never as markup.
std::string html_page(const std::string& title, const PageParts& parts, const nlohmann::json& data);

}  // namespace kilter::profile
