#include "tune/tuner/choices_file.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"

namespace kilter::tune {

std::string text(const Choices& choices, const std::string& notes) {
  std::string out;
  for (const std::string_view line : split(notes, '\n')) {
    if (!line.empty()) out += fmt::format("# {}\n", line);
  }
  for (const auto& [node, schedule] : choices) out += fmt::format("{} = {}\n", node, schedule.text());
  return out;
}

Choices parse_choices(std::string_view text, const std::string& where) {
  Choices out;
  size_t number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    line = trim(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const auto refuse = [&](std::string_view expected, std::string_view got) {
      fail(ErrorKind::bad_input, "{} line {}: expected {}, got '{}'", where, number, expected, got);
    };
    const size_t equals = line.find(" = ");
    if (equals == std::string_view::npos) refuse("NODE = TEMPLATE KNOB=VALUE ...", line);
    const std::string node(trim(line.substr(0, equals)));
    Schedule schedule;
    try {
      schedule = parse_schedule(trim(line.substr(equals + 3)));
    } catch (const Error& e) {
      fail(ErrorKind::bad_input, "{} line {}: {}", where, number, e.message());
    }
    if (node.empty()) refuse("the name of a layer before ' = '", line);
    if (!out.emplace(node, std::move(schedule)).second) refuse("each layer once", node);
  }
  return out;
}

}  // namespace kilter::tune
