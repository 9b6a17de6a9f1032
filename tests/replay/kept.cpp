#include "kept.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "base/text.h"

namespace kilter::replay {
namespace {

constexpr std::array<std::string_view, 5> kFields = {"layer", "operators", "schedule", "layouts", "loops"};
constexpr std::string_view kBar = " | ";

struct Line {
  std::string layer;  ///< "conv1", or "conv1 (stage 2)" for the second of several stages
  std::vector<std::string> fields;
};

std::vector<std::string> fields_of(std::string_view line) {
  std::vector<std::string> fields;
  for (size_t at = 0; at <= line.size();) {
    const size_t bar = std::min(line.find(kBar, at), line.size());
    fields.emplace_back(trim(line.substr(at, bar - at)));
    at = bar + kBar.size();
  }
  fields.resize(kFields.size());
  return fields;
}

std::vector<Line> lines_of(const std::string& text) {
  std::vector<Line> lines;
  std::map<std::string, int> seen;
  for (const std::string_view line : split(text, '\n')) {
    if (trim(line).empty() || line.starts_with('#')) continue;
    std::vector<std::string> fields = fields_of(line);
    const int stage = ++seen[fields[0]];
    lines.push_back({stage == 1 ? fields[0] : fmt::format("{} (stage {})", fields[0], stage), std::move(fields)});
  }
  return lines;
}

const Line* find(const std::vector<Line>& lines, const std::string& layer) {
  const auto it = std::find_if(lines.begin(), lines.end(), [&](const Line& l) { return l.layer == layer; });
  return it == lines.end() ? nullptr : &*it;
}

std::string changed_fields(const Line& before, const Line& after) {
  std::string out;
  for (size_t f = 1; f < kFields.size(); ++f) {
    if (before.fields[f] == after.fields[f]) continue;
    out += fmt::format("  {:<10} old {}\n  {:<10} new {}\n", kFields[f], before.fields[f], "", after.fields[f]);
  }
  return out;
}

}  // namespace

std::string defaults_text(const std::string& title, const Compiled& compiled) {
  std::string out = fmt::format("# {}\n# {}\n", title, fmt::join(kFields, kBar));
  for (size_t s = 0; s < compiled.plan.steps.size(); ++s) {
    const Step& step = compiled.plan.steps[s];
    const uint64_t loops = compiled.notes[s].loops;
    const std::string hash = loops == 0 ? "-" : fmt::format("{:016x}", loops);
    const auto shown = [](const std::string& field) { return field.empty() ? "-" : field; };
    out += fmt::format("{}{}{}{}{}{}{}{}{}\n", step.name, kBar, step.ops, kBar, shown(step.schedule), kBar,
                       shown(step.layouts), kBar, hash);
  }
  return out;
}

std::string difference(const std::string& old_text, const std::string& new_text) {
  const std::vector<Line> before = lines_of(old_text), after = lines_of(new_text);
  std::string out;
  for (const Line& line : after) {
    const Line* old = find(before, line.layer);
    const std::string changes = old == nullptr ? "" : changed_fields(*old, line);
    if (old == nullptr) out += fmt::format("{}: new: {}\n", line.layer, fmt::join(line.fields, kBar));
    if (!changes.empty()) out += line.layer + ":\n" + changes;
  }
  for (const Line& line : before) {
    if (find(after, line.layer) == nullptr)
      out += fmt::format("{}: gone: {}\n", line.layer, fmt::join(line.fields, kBar));
  }
  const auto order = [](const std::vector<Line>& lines) {
    std::vector<std::string> names;
    for (const Line& l : lines) names.push_back(l.layer);
    return names;
  };
  if (out.empty() && order(before) != order(after)) out = "the layers are the same, in another order\n";
  return out;
}

}  // namespace kilter::replay
