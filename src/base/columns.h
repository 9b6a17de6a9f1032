// Text that fits the columns of a terminal.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kilter {

/// Returns the beginning of a text: the characters that lie completely within its first `bytes` bytes.
std::string_view beginning(std::string_view text, size_t bytes);

/// Returns the text without its middle, with ".." in its place, if it is longer than `width` bytes; `width` is at least
/// 4. Characters of UTF-8 stay whole.
std::string without_middle(std::string_view text, size_t width);

/// Returns the names without their middles, as without_middle(). Names that only their middles distinguish keep the
/// part in which they differ instead of their beginning: "..blocks.3..conv".
std::vector<std::string> short_names(std::span<const std::string> names, size_t width);

/// Returns the beginning that all names have in common, up to and including their last common '.' or '/'. Returns an
/// empty view if it is not longer than three letters or there is only one name.
std::string_view common_start(std::span<const std::string> names);

/// Breaks a line at spaces so that no part is longer than `width`; the parts after the first begin with `indent`
/// spaces. A width of 0 leaves the line whole.
std::string hanging(std::string_view line, size_t indent, size_t width);

}  // namespace kilter
