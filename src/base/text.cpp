#include "base/text.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"
#include "base/utf8.h"

namespace kilter {
namespace {

constexpr std::string_view kBlanks = " \t\r\n\f\v";

template <class T>
std::string shortest(T value) {
  std::array<char, 64> buffer;
  const auto [end, status] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  require(status == std::errc(), "the shortest text of a number is longer than {} characters", buffer.size());
  return {buffer.data(), end};
}

/// Returns false for control characters, line and paragraph separators, and marks that reorder the text around them.
bool is_shown(char32_t code) {
  const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  const bool separates = code == 0x2028 || code == 0x2029;
  const bool reorders = code == 0x061C || code == 0x200E || code == 0x200F || (code >= 0x202A && code <= 0x202E) ||
                        (code >= 0x2066 && code <= 0x2069);
  return !control && !separates && !reorders;
}

std::string printable(std::string_view text, std::string_view also) {
  std::string out;
  while (!text.empty()) {
    const Character c = character_at(text, 0);
    const std::string_view bytes = text.substr(0, c.bytes);
    const bool stays = c.valid && (is_shown(c.code) || also.find(bytes) != std::string_view::npos);
    for (const char byte : bytes) {
      if (stays) {
        out += byte;
      } else {
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
      }
    }
    text.remove_prefix(bytes.size());
  }
  return out;
}

std::string replaced(std::string_view text, char what, std::string_view by) {
  std::string out;
  for (const char c : text) out += c == what ? by : std::string_view(&c, 1);
  return out;
}

}  // namespace

std::string printable(std::string_view text) { return printable(text, {}); }
std::string printable_lines(std::string_view text) { return printable(text, "\n\t"); }

std::string csv_cell(std::string_view text) {
  std::string cell = printable(text);
  const bool formula = !cell.empty() && std::string_view("=+-@").find(cell[0]) != std::string_view::npos;
  if (formula && !try_parse_float(cell.substr(cell[0] == '+' ? 1 : 0))) cell.insert(0, 1, '\'');
  if (cell.find_first_of(",;\"") == std::string::npos) return cell;
  return '"' + replaced(cell, '"', "\"\"") + '"';
}

std::string shell_word(std::string_view text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_./:=,@%+-").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, plain)) return std::string(text);
  if (printable(text) == text) return "'" + replaced(text, '\'', "'\\''") + "'";
  return "$'" + printable(replaced(replaced(text, '\\', "\\\\"), '\'', "\\'")) + "'";
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  for (;;) {
    const size_t begin = text.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return words;
    text.remove_prefix(begin);
    const size_t end = std::min(text.find_first_of(kBlanks), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string joined;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) joined += separator;
    joined += parts[i];
  }
  return joined;
}

std::string_view trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::optional<int64_t> try_parse_int(std::string_view text) {
  int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

int64_t parse_int(std::string_view text, std::string_view what, int64_t low, int64_t high) {
  const auto value = try_parse_int(text);
  if (!value || *value < low || *value > high) {
    fail(ErrorKind::usage, "{}: expected a whole number from {} to {}, got '{}'", what, low, high, text);
  }
  return *value;
}

std::optional<double> try_parse_float(std::string_view text) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

double parse_float(std::string_view text, std::string_view what) {
  const auto value = try_parse_float(text);
  if (!value) fail(ErrorKind::usage, "{}: expected a number, got '{}'", what, text);
  return *value;
}

std::string format_float(float value) { return shortest(value); }
std::string format_float(double value) { return shortest(value); }

std::string format_fixed(double value, int digits) {
  std::array<char, 512> buffer;
  const auto [end, status] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, digits);
  require(status == std::errc(), "a number with {} digits is longer than {} characters", digits, buffer.size());
  return {buffer.data(), end};
}

std::optional<std::vector<int64_t>> try_parse_shape(std::string_view text) {
  std::vector<int64_t> shape;
  if (text == "scalar") return shape;
  for (std::string_view part : split(text, 'x')) {
    const auto value = try_parse_int(part);
    if (!value || *value < 0) return std::nullopt;
    shape.push_back(*value);
  }
  return shape;
}

}  // namespace kilter
