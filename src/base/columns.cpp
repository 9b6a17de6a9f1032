#include "base/columns.h"

#include <algorithm>

namespace kilter {

namespace {

/// Whether the byte belongs to a character that began before it.
bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80; }

}  // namespace

std::string_view beginning(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && continues(text[bytes])) --bytes;
  return text.substr(0, bytes);
}

std::string without_middle(std::string_view text, size_t width) {
  if (text.size() <= width) return std::string(text);
  const size_t kept = width - 2, after = kept / 2;
  std::string_view end = text.substr(text.size() - after);
  while (!end.empty() && continues(end.front())) end.remove_prefix(1);
  return std::string(beginning(text, kept - after)) + ".." + std::string(end);
}

std::string_view common_start(std::span<const std::string> names) {
  constexpr size_t kShortest = 3;
  if (names.size() < 2) return {};
  std::string_view common = names.front();
  for (const std::string& name : names) {
    const auto end = std::ranges::mismatch(common, name).in1;
    common = common.substr(0, static_cast<size_t>(end - common.begin()));
  }
  common = common.substr(0, common.find_last_of("./") + 1);  // nothing if there is neither
  return common.size() > kShortest ? common : std::string_view();
}

std::string hanging(std::string_view line, size_t indent, size_t width) {
  std::string out;
  size_t room = width;
  while (width > indent && line.size() > room) {
    const size_t begin = line.find_first_not_of(' ');
    size_t at = line.find_last_of(' ', room);
    if (at == std::string_view::npos || at < begin) at = line.find(' ', std::max(begin, room));  // a long word
    if (at == std::string_view::npos) break;
    out += std::string(line.substr(0, at)) + "\n" + std::string(indent, ' ');
    line.remove_prefix(at + 1);
    room = width - indent;
  }
  return out + std::string(line);
}

}  // namespace kilter
