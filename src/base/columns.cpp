#include "base/columns.h"

#include <algorithm>
#include <map>

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

namespace {

/// The length of the beginning that all these names share.
size_t shared_bytes(std::span<const std::string> names, const std::vector<size_t>& group) {
  const std::string& first = names[group.front()];
  size_t shared = first.size();
  for (const size_t i : group) {
    const auto end = std::ranges::mismatch(first, names[i]).in1;
    shared = std::min(shared, static_cast<size_t>(end - first.begin()));
  }
  return shared;
}

/// "..PART..END" of a name: the part of its path around a place, and as much of its end as fits.
std::string around(std::string_view name, size_t place, size_t width) {
  constexpr size_t kDots = 2;
  const size_t most = (width - 2 * kDots) / 2, slash = place == 0 ? place : name.rfind('/', place - 1);
  size_t begin = slash == std::string_view::npos ? 0 : slash + 1;
  if (place - std::min(begin, place) >= most / 2) begin = place - std::min(place, most / 2);
  while (begin < name.size() && continues(name[begin])) ++begin;
  const std::string_view rest = name.substr(begin);
  if (rest.size() + kDots <= width) return ".." + std::string(rest);
  const std::string_view part = beginning(rest, std::min(most, rest.find('/', place - begin)));
  std::string_view end =
      rest.substr(rest.size() - std::min(rest.size() - part.size(), width - 2 * kDots - part.size()));
  while (!end.empty() && continues(end.front())) end.remove_prefix(1);
  return ".." + std::string(part) + ".." + std::string(end);
}

}  // namespace

std::vector<std::string> short_names(std::span<const std::string> names, size_t width) {
  constexpr size_t kLeastWidth = 12;  // of a form with two parts
  std::vector<std::string> out;
  std::map<std::string, std::vector<size_t>> alike;
  for (size_t i = 0; i < names.size(); ++i) {
    out.push_back(without_middle(names[i], width));
    if (names[i].size() > width && width >= kLeastWidth) alike[out.back()].push_back(i);
  }
  for (const auto& [form, group] : alike) {
    const size_t shared = shared_bytes(names, group);
    if (shared == names[group.front()].size() &&
        std::ranges::all_of(group, [&](size_t i) { return names[i].size() == shared; }))
      continue;  // one name
    for (const size_t i : group) out[i] = around(names[i], std::min(shared, names[i].size() - 1), width);
  }
  return out;
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
