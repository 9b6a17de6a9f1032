// Text as the rest of Kilter needs it; nothing here depends on the locale.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kilter {

/// The parts between separators; "" has one empty part. Views into `text`.
std::vector<std::string_view> split(std::string_view text, char separator);
/// The parts between runs of blanks, tabs and line ends; none of them empty.
std::vector<std::string_view> split_words(std::string_view text);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string_view trim(std::string_view text);
std::string lower(std::string_view text);

/// A whole number in decimal with an optional '-'; nothing when `text` is anything else or does not fit 64 bits.
std::optional<int64_t> try_parse_int(std::string_view text);
/// The same, or a usage error naming `what`, the text and the legal range.
int64_t parse_int(std::string_view text, std::string_view what, int64_t low = std::numeric_limits<int64_t>::min(),
                  int64_t high = std::numeric_limits<int64_t>::max());
/// A decimal number, "inf" or "nan" as std::from_chars reads them; nothing when `text` is anything else.
std::optional<double> try_parse_float(std::string_view text);
double parse_float(std::string_view text, std::string_view what);

/// The shortest text that reads back as the same number: "0.1", "1e-05", "inf".
std::string format_float(float value);
std::string format_float(double value);
/// With `digits` after the point: "3.142".
std::string format_fixed(double value, int digits);

/// "1x3x224x224" as dimensions ("scalar" has none); nothing when it is not numbers of 0 or more joined by 'x'.
std::optional<std::vector<int64_t>> try_parse_shape(std::string_view text);

/// Text from outside (a name in a model, a file name) as one line that is safe on a terminal: control characters,
/// marks that reorder text and bytes that are not UTF-8 as \xNN, everything else as it is.
std::string printable(std::string_view text);
/// The same for text of several lines: line ends and tabs stay.
std::string printable_lines(std::string_view text);
/// A cell of a CSV file, printable and in quotes where it needs them. A text that a spreadsheet would take for a
/// formula (it begins with = + - @) gets an apostrophe in front; a number stays one.
std::string csv_cell(std::string_view text);
/// A word as a shell takes it: in quotes where it needs them, what is not printable as $'\xNN'.
std::string shell_word(std::string_view text);

}  // namespace kilter
