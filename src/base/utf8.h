// Reading and writing UTF-8 one character at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kilter {

/// One character of a text: its code point and how many bytes it takes.
struct Character {
  char32_t code = 0;  ///< meaningless unless `valid`
  size_t bytes = 1;
  bool valid = false;  ///< false: a single byte that is not part of any UTF-8 character
};

/// Returns the character that begins at byte `at` of the text; at < text.size().
Character character_at(std::string_view text, size_t at);
/// Appends a code point of at most U+10FFFF.
void append_character(std::string& text, char32_t code);

}  // namespace kilter
