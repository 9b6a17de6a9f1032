// Tables and lines of text that fit the columns of a terminal.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace kilter {

/// How a table is shown.
struct TableStyle {
  size_t width = 0;                                               ///< the most columns of text; 0: no limit
  std::function<std::string(const std::string&)> head = nullptr;  ///< adds codes to the line of titles; may be null
};

struct TextColumn {
  std::string title;
  size_t width = 0;   ///< the least columns of text, if there is room
  bool left = false;  ///< aligned to the left
  int rank = 0;       ///< of the columns that do not fit, those of the highest rank are left out first; 0: none is
  size_t least = 0;   ///< to how much texts may be shortened, by leaving out their middle; 0: they stay whole
  size_t most = 0;    ///< longer texts are always shortened to this; 0: no limit
  size_t gap = 1;     ///< spaces before it, apart from the first column
};

/// A table with one line for each row. If texts of the first column may be shortened, the beginning that they all share
/// is shown only once, below the table.
class TextTable {
 public:
  explicit TextTable(std::vector<TextColumn> columns, size_t indent = 0);
  /// Adds a row with a text for every column.
  void add(std::vector<std::string> row);
  /// Returns the lines, then the names of the columns that are left out; `whole` says where these are, e.g. "--json has
  /// them".
  std::string text(const TableStyle& style, std::string_view whole) const;

 private:
  struct Layout;
  Layout layout(size_t width) const;
  std::string line(const Layout& layout, const std::vector<std::string>& row) const;

  std::vector<TextColumn> columns_;
  std::vector<std::vector<std::string>> rows_;
  size_t indent_;
};

/// Breaks the lines of a text at spaces so that they fit the width. The rest of a broken line begins below its text,
/// after its label ("schedule    conv2d ...") if it has one. Longer words are shortened in the middle. Commands
/// ("  $ kilter ...") and lines with codes of colours stay whole.
std::string fit_lines(std::string_view text, size_t width);

}  // namespace kilter
