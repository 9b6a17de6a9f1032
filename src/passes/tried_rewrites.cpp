#include "passes/tried_rewrites.h"

#include <fmt/format.h>

namespace kilter {
namespace {

constexpr std::string_view kApplied = "applied";

}  // namespace

void TriedRewrites::add(const std::string& node, const std::string& rewrite, bool applied, std::string_view why_not) {
  if (!applied && why_not.empty()) return;
  std::string& outcome = outcomes_[{node, rewrite}];
  if (outcome == kApplied) return;
  outcome = applied ? std::string(kApplied) : fmt::format("not applied: {}", why_not);
}

std::string TriedRewrites::take_text() {
  std::string text;
  for (const auto& [tried, outcome] : std::exchange(outcomes_, {}))
    text += fmt::format("'{}' {}: {}\n", tried.first, tried.second, outcome);
  return text;
}

}  // namespace kilter
