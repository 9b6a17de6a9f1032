// Values in PostgreSQL's text format.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kilter::postgres {

/// Returns a text that PostgreSQL can store, with U+FFFD in place of NUL and of bytes that are not UTF-8.
std::string storable(const std::string& text);
/// Convert bytes to the text of a bytea, and back. Throws internal for a text that no server writes.
std::string bytea_text(std::string_view bytes);
std::string bytes_of(std::string_view bytea);

/// Builds the text of an array.
class ArrayText {
 public:
  /// Adds an element; nothing stands for null.
  void add(const std::optional<std::string>& value);
  std::string text() const { return text_ + "}"; }
  size_t size() const { return text_.size(); }

 private:
  std::string text_ = "{";
};

}  // namespace kilter::postgres
