// Conversion between JSON and text. All code uses these functions instead of the JSON library's own: the library's
// functions throw on strings that are not UTF-8, and they accept values nested so deeply that writing or copying them
// overflows the stack.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kilter {

/// Returns `value` on one line, or indented by `indent`. Invalid UTF-8 in strings becomes U+FFFD; numbers that are not
/// finite become null.
template <class Json>
  requires nlohmann::detail::is_basic_json<Json>::value
std::string json_text(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

/// The deepest nesting of arrays and objects that is accepted.
constexpr int kMostJsonDepth = 200;

/// Returns the byte at which a text exceeds kMostJsonDepth, or the text's size if it does not.
inline size_t too_deep_at(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted) {
      depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
      if (depth > kMostJsonDepth) return i;
    }
  }
  return text.size();
}

/// Parses a JSON text. Throws nlohmann::json::parse_error if it is malformed or nested too deeply.
inline nlohmann::json parse_json(std::string_view text) {
  if (const size_t at = too_deep_at(text); at < text.size()) {
    throw nlohmann::json::parse_error::create(
        101, at, "arrays and objects are nested more than " + std::to_string(kMostJsonDepth) + " deep", nullptr);
  }
  return nlohmann::json::parse(text);
}

/// Parses a JSON text. Returns a discarded value if it is malformed or nested too deeply.
inline nlohmann::json try_parse_json(std::string_view text) {
  if (too_deep_at(text) < text.size()) return nlohmann::json(nlohmann::json::value_t::discarded);
  return nlohmann::json::parse(text, nullptr, false);
}

}  // namespace kilter
