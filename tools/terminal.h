// The terminal: its size, colours, and one line of progress on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/text_table.h"

namespace kilter::tool {

struct TerminalSize {
  size_t rows = 24, columns = 80;
  bool operator==(const TerminalSize&) const = default;
};

/// Returns the size of the terminal on standard error, or 24 rows of 80 columns if there is no terminal or its size is
/// unknown.
TerminalSize terminal_size();

/// Returns the width of the terminal on the console's output; nothing if it is not a terminal, for which tables are not
/// cut.
std::optional<size_t> terminal_columns();
/// Returns terminal_columns(), or 80 if there are none, for text that is always wrapped.
size_t output_columns();

enum class Style : uint8_t { bold, good, bad };
/// Returns the text with the codes for a style, if the console's output is to have colours (Console::colours()).
std::string styled(Style style, const std::string& text);
/// Like styled(), for the console's error output.
std::string styled_error(Style style, const std::string& text);

/// Returns how tables are shown on the console's output: as wide as the terminal, titles bold if there are colours.
TableStyle table_style();
/// Prints text whose lines are broken to fit the terminal, if the console's output is one (fit_lines()).
void say_fitted(std::string_view text);

/// One line that is rewritten in place, or the console's own progress. If standard error is not a terminal, prints
/// nothing, or with --verbose a line whenever something else is being done. Cuts lines that are too wide, since a
/// wrapped line could not be erased.
class Progress {
 public:
  /// `what` is printed before each text, e.g. "bench zoo:resnet18".
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(const std::string& text);
  void clear();

 private:
  std::string what_;
  bool terminal_;
  bool shown_ = false;
  std::string doing_;  ///< the last line of --verbose
};

}  // namespace kilter::tool
