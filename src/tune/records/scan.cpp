#include "tune/records/scan.h"

#include <algorithm>
#include <array>

#include "base/json_text.h"

namespace kilter::tune {
namespace {

constexpr size_t kMostBytes = size_t{1} << 16;  ///< of one record
constexpr int kMostDepth = 32;                  ///< of nested brackets: deeper text is not a record

/// The first keys of records: TVM's in both versions and either order, and Kilter's.
constexpr std::array<std::string_view, 14> kFirstKeys = {
    "i",           "r",          "v",     "input",   "config", "result",        "version",
    "tvm_version", "conditions", "error", "foreign", "id",     "kilter_record", "problem"};

/// A typographic replacement for a character of JSON.
struct Typography {
  std::string_view from;
  char to;
};
constexpr std::array kTypography = {
    Typography{"\xe2\x80\x9c", '"'}, Typography{"\xe2\x80\x9d", '"'},  // left and right
    Typography{"\xe2\x80\x9e", '"'}, Typography{"\xe2\x80\x9f", '"'},  // low, high reversed
    Typography{"&quot;", '"'},       Typography{"\xc2\xa0", ' '},      // no-break space
};

/// The text with plain characters, and the position in the original of each of its bytes.
struct Plain {
  std::string text;
  std::vector<size_t> at;
};

Plain plain_of(std::string_view text) {
  Plain out;
  out.text.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const auto beautiful = std::find_if(kTypography.begin(), kTypography.end(),
                                        [&](const Typography& t) { return text.substr(i).starts_with(t.from); });
    out.at.push_back(i);
    if (beautiful == kTypography.end()) {
      out.text += text[i++];
    } else {
      out.text += beautiful->to;
      i += beautiful->from.size();
    }
  }
  return out;
}

/// Whether an object whose first key is one of kFirstKeys begins at `at`.
bool begins(std::string_view text, size_t at) {
  const std::string_view rest = text.substr(at + 1, 64);
  const size_t quote = rest.find_first_not_of(" \t\r\n");
  if (quote == std::string_view::npos || rest[quote] != '"') return false;
  const size_t end = rest.find('"', quote + 1);
  if (end == std::string_view::npos) return false;
  const std::string_view key = rest.substr(quote + 1, end - quote - 1);
  return std::find(kFirstKeys.begin(), kFirstKeys.end(), key) != kFirstKeys.end();
}

/// Returns the position after the brace that closes the one at `at`; 0 if there is none within the limits.
size_t end_of_object(std::string_view text, size_t at) {
  int depth = 0;
  bool quoted = false;
  const size_t most = std::min(text.size(), at + kMostBytes);
  for (size_t i = at; i < most; ++i) {
    const char c = text[i];
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == '{' || c == '[')) {
      if (++depth > kMostDepth) return 0;
    } else if (!quoted && (c == '}' || c == ']')) {
      if (--depth == 0) return i + 1;
    }
  }
  return 0;
}

/// Returns the object at `at` and the position after it; discarded and 0 if it is damaged.
std::pair<nlohmann::json, size_t> object_at(std::string_view text, size_t at) {
  const size_t end = end_of_object(text, at);
  if (end == 0) return {nlohmann::json(nlohmann::json::value_t::discarded), 0};
  return {try_parse_json(text.substr(at, end - at)), end};
}

std::string_view line_at(std::string_view text, size_t at) {
  return text.substr(at, std::min(text.find('\n', at), text.size()) - at);
}

class Scanner {
 public:
  explicit Scanner(std::string_view text) : original_(text), plain_(plain_of(text)) {}

  std::vector<Found> run() {
    const std::string_view text = plain_.text;
    for (size_t at = text.find('{'); at != std::string_view::npos; at = text.find('{', at)) {
      at = begins(text, at) ? take(at) : at + 1;
    }
    return std::move(found_);
  }

 private:
  /// Adds the object at `at` to found_, and returns the position at which to continue.
  size_t take(size_t at) {
    const std::string_view text = plain_.text;
    auto [json, end] = object_at(text, at);
    if (!json.is_discarded()) {
      found_.push_back({line_of(at), std::string(text.substr(at, end - at)), std::move(json)});
      return end;
    }
    // Straightening typographic quotes inside a string breaks the JSON, so the original text is tried as well.
    const size_t first = plain_.at[at];
    auto [as_written, written_end] = object_at(original_, first);
    if (!as_written.is_discarded()) {
      found_.push_back({line_of(at), std::string(original_.substr(first, written_end - first)), std::move(as_written)});
      return std::lower_bound(plain_.at.begin(), plain_.at.end(), written_end) - plain_.at.begin();
    }
    const int64_t line = line_of(at);
    if (line != damaged_line_ || at >= damaged_end_) {
      found_.push_back({line, std::string(line_at(text, at)), nlohmann::json(nlohmann::json::value_t::discarded)});
      damaged_line_ = line;
      damaged_end_ = at + line_at(text, at).size();
    }
    return at + 1;
  }

  /// Returns the line of a position, which must not be before that of the previous call.
  int64_t line_of(size_t at) {
    line_ += std::count(plain_.text.begin() + static_cast<int64_t>(counted_),
                        plain_.text.begin() + static_cast<int64_t>(at), '\n');
    counted_ = at;
    return line_;
  }

  std::string_view original_;
  Plain plain_;
  std::vector<Found> found_;
  int64_t line_ = 1;
  size_t counted_ = 0;
  int64_t damaged_line_ = 0;
  size_t damaged_end_ = 0;
};

}  // namespace

std::vector<Found> scan_records(std::string_view text) { return Scanner(text).run(); }

}  // namespace kilter::tune
