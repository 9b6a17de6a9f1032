// JSON from and to text. Nothing else calls the library's own functions for it: they throw at strings that are not
// UTF-8, and what they read may be nested so deeply that writing or copying it overflows the stack.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kilter {

/// On one line, or indented by `indent`. Bytes of strings that are not UTF-8 become U+FFFD; numbers that are not finite
/// become null.
template <class Json>
  requires nlohmann::detail::is_basic_json<Json>::value
std::string json_text(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

/// Arrays and objects inside each other that are read.
constexpr int kMostJsonDepth = 200;

/// The byte at which a text is nested deeper than that; its size where it is not.
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

/// Throws nlohmann::json::parse_error for a text that is malformed or nested too deeply.
inline nlohmann::json parse_json(std::string_view text) {
  if (const size_t at = too_deep_at(text); at < text.size()) {
    throw nlohmann::json::parse_error::create(
        101, at, "arrays and objects are nested more than " + std::to_string(kMostJsonDepth) + " deep", nullptr);
  }
  return nlohmann::json::parse(text);
}

/// The same; such a text gives a discarded value.
inline nlohmann::json try_parse_json(std::string_view text) {
  if (too_deep_at(text) < text.size()) return nlohmann::json(nlohmann::json::value_t::discarded);
  return nlohmann::json::parse(text, nullptr, false);
}

}  // namespace kilter
