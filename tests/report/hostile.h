// Names that try to break a page, for pages that no real network produces.
#pragma once

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace kilter::hostile {

/// Names that a model's author or an attacker may have given to a layer.
inline const std::vector<std::string> kHostile = {
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "<!--<script>",
    "]]>&lt;&amp;\"'`${1+1}",
    "{{script}}{{data}}",
    "javascript:document.title='owned'",
    "\xff\xfe not UTF-8 \xc3",
    "line\nbreak\ttab\x01" + std::string(1, '\0') + "control",
    "\xe2\x80\xae" + std::string("right to left"),
    "\xf0\x9f\x90\x8c snail, \xe4\xb8\xad\xe6\x96\x87, \xe2\x80\xa8 separator",
    "",
    "__proto__",
    std::string(5000, 'n'),
    "https://example.invalid/a.png",
    "=HYPERLINK(\"https://example.invalid\")",
    "@SUM(A1)",
    "-2+3;\"quoted\"",
};

/// Writes a file. Throws runtime_error with the file's name if it cannot be written.
inline void write(const std::filesystem::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

}  // namespace kilter::hostile
