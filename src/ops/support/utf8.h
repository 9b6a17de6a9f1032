// Properties and letter cases of characters. Bytes that are not UTF-8 are kept as they are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace kilter {

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
