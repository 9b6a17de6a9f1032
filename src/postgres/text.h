// Values as texts that PostgreSQL reads.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kilter::postgres {

/// Returns a text that PostgreSQL can store, with U+FFFD instead of NUL and of bytes that are not UTF-8.
std::string storable(const std::string& text);
/// Bytes as the text of a bytea, and back. Throws internal for a text that no server writes.
std::string bytea_text(std::string_view bytes);
std::string bytes_of(std::string_view bytea);

/// Elements of an array, as its text.
class ArrayText {
 public:
  /// Nothing: null.
  void add(const std::optional<std::string>& value);
  std::string text() const { return text_ + "}"; }
  size_t size() const { return text_.size(); }

 private:
  std::string text_ = "{";
};

}  // namespace kilter::postgres
