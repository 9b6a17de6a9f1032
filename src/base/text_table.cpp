#include "base/text_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/columns.h"
#include "base/error.h"
#include "base/text.h"

namespace kilter {

struct TextTable::Layout {
  std::vector<size_t> columns;  ///< indices of those that are shown
  std::vector<size_t> widths;   ///< of all
  std::string start;            ///< the beginning that the texts of the first column share
  std::vector<std::string> left_out;
};

TextTable::TextTable(std::vector<TextColumn> columns, size_t indent) : columns_(std::move(columns)), indent_(indent) {}

void TextTable::add(std::vector<std::string> row) {
  require(row.size() == columns_.size(), "a row of a table has {} texts for {} columns", row.size(), columns_.size());
  rows_.push_back(std::move(row));
}

TextTable::Layout TextTable::layout(size_t width) const {
  Layout out;
  std::vector<std::string> names;
  for (const auto& row : rows_) names.push_back(row.front());
  if (width > 0 && columns_.front().least > 0) out.start = common_start(names);
  for (size_t c = 0; c < columns_.size(); ++c) {
    const TextColumn& column = columns_[c];
    size_t longest = std::max(column.width, column.title.size());
    for (const auto& row : rows_) longest = std::max(longest, row[c].size() - (c == 0 ? out.start.size() : 0));
    if (column.most > 0) longest = std::min(longest, column.most);
    if (width > 0 && column.least > 0) {  // no wider than the texts
      size_t needed = column.title.size();
      for (const auto& row : rows_) needed = std::max(needed, row[c].size() - (c == 0 ? out.start.size() : 0));
      longest = std::min(longest, needed);
    }
    out.widths.push_back(longest);
    out.columns.push_back(c);
  }
  if (width == 0) return out;
  const auto excess = [&] {
    size_t sum = indent_;
    for (const size_t c : out.columns) sum += out.widths[c] + (c == 0 ? 0 : columns_[c].gap);
    return sum - std::min(sum, width);
  };
  const auto spare = [&](size_t c) {
    const size_t least = columns_[c].least;
    return least == 0 ? 0 : out.widths[c] - std::min(out.widths[c], least);
  };
  const auto all_spare = [&] {
    size_t sum = 0;
    for (const size_t c : out.columns) sum += spare(c);
    return sum;
  };
  while (excess() > all_spare()) {
    const auto last = std::ranges::max_element(out.columns, {}, [&](size_t c) { return columns_[c].rank; });
    if (columns_[*last].rank == 0) break;
    out.left_out.insert(out.left_out.begin(), columns_[*last].title);
    out.columns.erase(last);
  }
  while (excess() > 0 && all_spare() > 0) {
    const auto most = std::ranges::max_element(out.columns, {}, spare);
    --out.widths[*most];
  }
  return out;
}

std::string TextTable::line(const Layout& layout, const std::vector<std::string>& row) const {
  std::string out(indent_, ' ');
  for (const size_t c : layout.columns) {
    const TextColumn& column = columns_[c];
    const bool cut = column.least > 0 || column.most > 0;
    const std::string shown = cut ? without_middle(row[c], std::max<size_t>(layout.widths[c], 4)) : row[c];
    out += std::string(c == 0 ? 0 : column.gap, ' ');
    out +=
        column.left ? fmt::format("{:<{}}", shown, layout.widths[c]) : fmt::format("{:>{}}", shown, layout.widths[c]);
  }
  return out.substr(0, out.find_last_not_of(' ') + 1);
}

std::string TextTable::text(const TableStyle& style, std::string_view whole) const {
  const Layout layout = this->layout(style.width);
  std::vector<std::string> titles;
  for (const TextColumn& column : columns_) titles.push_back(column.title);
  std::vector<std::string> names;  // texts of the first column, as they are shown
  for (const auto& row : rows_) {
    const std::string_view text = row.front();
    names.emplace_back(text.starts_with(layout.start) ? text.substr(layout.start.size()) : text);
  }
  if (columns_.front().least > 0 || columns_.front().most > 0)
    names = short_names(names, std::max<size_t>(layout.widths.front(), 4));
  const std::string head = line(layout, titles);
  std::string out = (style.head ? style.head(head) : head) + "\n";
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::vector<std::string> row = rows_[r];
    row.front() = names[r];
    out += line(layout, row) + "\n";
  }
  const std::string indent(indent_, ' ');
  if (!layout.start.empty()) out += fmt::format("{}names begin with {}\n", indent, layout.start);
  if (layout.left_out.empty()) return out;
  const std::string left =
      fmt::format("{}left out at {} columns: {}; {}", indent, style.width, fmt::join(layout.left_out, ", "), whole);
  return out + hanging(left, indent_ + 2, style.width) + "\n";
}

namespace {

/// The column at which the rest of a broken line begins.
size_t indent_of(std::string_view line) {
  constexpr size_t kMostLabel = 20;
  const size_t begin = line.find_first_not_of(' ');
  if (begin == std::string_view::npos) return 0;
  const size_t gap = line.find("  ", begin);
  if (gap != std::string_view::npos && gap < begin + kMostLabel) return line.find_first_not_of(' ', gap);
  return begin + 2;
}

/// The line, with the middle of words of more than `most` letters left out.
std::string with_short_words(std::string_view line, size_t most) {
  std::string out;
  while (!line.empty()) {
    const size_t end = std::min(line.find(' '), line.size());
    out += without_middle(line.substr(0, end), most) + (end < line.size() ? " " : "");
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return out;
}

/// A line without codes, as fit_lines() shows it.
std::string fit_line(std::string_view line, size_t width) {
  constexpr size_t kLeastWord = 4;
  if (line.size() <= width) return std::string(line);
  const size_t indent = std::min(indent_of(line), width / 2);
  return hanging(with_short_words(line, std::max(kLeastWord, width - indent)), indent, width);
}

}  // namespace

std::string fit_lines(std::string_view text, size_t width) {
  if (width == 0) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const bool whole = trim(line).starts_with("$ ") || line.find('\033') != std::string_view::npos;
    out += whole ? std::string(line) : fit_line(line, width);
    if (end < text.size()) out += "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace kilter
