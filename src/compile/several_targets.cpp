#include "compile/several_targets.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace kilter {

std::vector<Target> parse_targets(std::string_view text) {
  std::vector<Target> targets;
  if (text.find('=') != std::string_view::npos || text.find(',') == std::string_view::npos) {
    targets.push_back(parse_target(text));
    return targets;
  }
  for (const std::string_view part : split(text, ',')) {
    if (trim(part).empty()) fail(ErrorKind::usage, "target '{}': there is no name before or after a comma", text);
    Target target = parse_target(trim(part));
    if (std::ranges::count(targets, target.name, &Target::name) > 0)
      fail(ErrorKind::usage, "target {}: '{}' is given twice", text, target.name);
    targets.push_back(std::move(target));
  }
  return targets;
}

vm::FileSize parse_file_size(std::string_view text) {
  if (text == "fast") return vm::FileSize::fast;
  if (text == "small") return vm::FileSize::small;
  fail(ErrorKind::usage, "size '{}': expected fast or small", printable(text));
}

SavedTargets save_targets(std::span<const std::unique_ptr<Session>> sessions, const FileSink& to) {
  SavedTargets made;
  std::vector<vm::Content> contents;
  for (const auto& session : sessions) {
    made.saved.push_back(session->saved());
    contents.push_back(made.saved.back().content);
  }
  made.parts = vm::save_targets(contents, to, sessions.front()->file_size());
  return made;
}

}  // namespace kilter
