// Reading and writing UTF-8 one character at a time. Bytes that are not UTF-8 are kept as they are.
#pragma once

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

/// Returns whether the code point has Unicode's property White_Space.
bool is_white_space(char32_t code);

/// The languages whose letter i has a capital form of its own.
enum class Alphabet : uint8_t { other, turkic };
/// Returns the alphabet of a locale such as "en_US" or "tr_TR.UTF-8".
Alphabet alphabet_of(std::string_view locale);
/// Return the text with every letter replaced by its simple lower-case or upper-case form, if it has one.
std::string lower_case(std::string_view text, Alphabet alphabet = Alphabet::other);
std::string upper_case(std::string_view text, Alphabet alphabet = Alphabet::other);

}  // namespace kilter
