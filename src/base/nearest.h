// Suggestions for misspelt words.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kilter {

/// Returns the number of insertions, deletions, replacements and swaps of neighbouring letters between two words.
size_t edit_distance(std::string_view a, std::string_view b);

/// Returns the legal word that is most similar to `word`: at most a third of its letters differ, or it continues
/// `word`. Returns an empty view if none is similar. The first of equally similar words wins.
std::string_view nearest(std::string_view word, std::span<const std::string> legal);

/// Returns "; did you mean 'NEAREST'?", or ";" if no legal word is similar. The message goes on with what is legal.
std::string did_you_mean(std::string_view word, std::span<const std::string> legal);

}  // namespace kilter
