#include "postgres/text.h"

#include "base/error.h"
#include "base/json_text.h"

namespace kilter::postgres {

std::string storable(const std::string& text) {
  std::string clean = nlohmann::json::parse(json_text(nlohmann::json(text))).get<std::string>();
  for (size_t at = clean.find('\0'); at != std::string::npos; at = clean.find('\0', at))
    clean.replace(at, 1, "\xef\xbf\xbd");
  return clean;
}

std::string bytea_text(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "\\x";
  text.reserve(2 + 2 * bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string bytes_of(std::string_view bytea) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  require(bytea.starts_with("\\x") && bytea.size() % 2 == 0, "a server returned {} characters that are not a bytea",
          bytea.size());
  std::string bytes;
  bytes.reserve(bytea.size() / 2);
  for (size_t i = 2; i < bytea.size(); i += 2) bytes += static_cast<char>(digit(bytea[i]) << 4 | digit(bytea[i + 1]));
  return bytes;
}

void ArrayText::add(const std::optional<std::string>& value) {
  text_ += text_.size() > 1 ? "," : "";
  if (!value) {
    text_ += "NULL";
    return;
  }
  text_ += '"';
  for (const char c : *value) {
    if (c == '"' || c == '\\') text_ += '\\';
    text_ += c;
  }
  text_ += '"';
}

}  // namespace kilter::postgres
