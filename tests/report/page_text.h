// Searches in the text of a page.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <string>

namespace kilter::profile {

inline size_t count(const std::string& text, const std::string& what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

/// Returns the JSON that the page's script reads.
inline nlohmann::json embedded_json(const std::string& page) {
  const std::string open = "id=\"page-data\">";
  const size_t begin = page.find(open) + open.size();
  return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

inline void expect_loads_nothing(const std::string& page) {
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  for (const char* way : {"src=\"", "url(", "@import", "fetch(", "XMLHttpRequest", "import("})
    EXPECT_EQ(count(page, way), 0u) << way;
  // The only address is the name of SVG's namespace, and the only link is that of the empty icon.
  const std::regex address("https?://[^\"' ]*");
  for (auto it = std::sregex_iterator(page.begin(), page.end(), address); it != std::sregex_iterator(); ++it)
    EXPECT_EQ(it->str(), "http://www.w3.org/2000/svg");
  EXPECT_EQ(count(page, "<link"), 1u);
}

}  // namespace kilter::profile
