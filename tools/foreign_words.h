// Options of other programs, for users who know those, and for each what does the same here.
#pragma once

#include <span>
#include <string_view>

namespace kilter::tool {

struct ForeignWord {
  std::string_view words;     ///< options with their dashes, with a space between two
  std::string_view commands;  ///< those that it is explained for, with a space between two; empty: all others
  std::string_view instead;
};
std::span<const ForeignWord> all_foreign_words();

/// Returns what does the same as an option of another program in this command, or an empty string if the word is not
/// known.
std::string_view instead_of(std::string_view command, std::string_view word);

}  // namespace kilter::tool
