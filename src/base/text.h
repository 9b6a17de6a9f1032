// Text helpers for the rest of Kilter. Nothing here depends on the locale.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kilter {

/// Returns the parts between separators; "" has one empty part. The parts are views into `text`.
std::vector<std::string_view> split(std::string_view text, char separator);
/// Returns the parts between runs of spaces, tabs and line ends. No part is empty.
std::vector<std::string_view> split_words(std::string_view text);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string_view trim(std::string_view text);
std::string lower(std::string_view text);

/// Parses a whole decimal number with an optional '-'. Returns nothing when `text` is anything else or does not fit
/// into 64 bits.
std::optional<int64_t> try_parse_int(std::string_view text);
/// Parses a whole decimal number. Throws usage, naming `what`, the text and the legal range.
int64_t parse_int(std::string_view text, std::string_view what, int64_t low = std::numeric_limits<int64_t>::min(),
                  int64_t high = std::numeric_limits<int64_t>::max());
/// Parses a decimal number, "inf" or "nan" as std::from_chars does. Returns nothing when `text` is anything else.
std::optional<double> try_parse_float(std::string_view text);
double parse_float(std::string_view text, std::string_view what);

/// Returns the shortest text that reads back as the same number: "0.1", "1e-05", "inf".
std::string format_float(float value);
std::string format_float(double value);
/// Returns `value` with `digits` digits after the point: "3.142".
std::string format_fixed(double value, int digits);

/// Parses "1x3x224x224" into dimensions ("scalar" has none). Returns nothing unless the text consists of non-negative
/// numbers joined by 'x'.
std::optional<std::vector<int64_t>> try_parse_shape(std::string_view text);

/// Returns text from outside (a name in a model, a file name) as one line that is safe on a terminal. Control
/// characters, marks that reorder text and bytes that are not UTF-8 appear as \xNN; everything else is unchanged.
std::string printable(std::string_view text);
/// Makes text of several lines safe as printable() does, but keeps line ends and tabs.
std::string printable_lines(std::string_view text);
/// Returns a printable cell of a CSV file, quoted where necessary. A text that a spreadsheet would take for a formula
/// (one that begins with = + - @) gets a leading apostrophe; a number stays a number.
std::string csv_cell(std::string_view text);
/// Returns a word for a shell: quoted where necessary, with unprintable characters as $'\xNN'.
std::string shell_word(std::string_view text);

}  // namespace kilter
