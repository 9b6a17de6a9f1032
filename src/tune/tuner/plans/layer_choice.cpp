#include "tune/tuner/plans/layer_choice.h"

#include <fmt/format.h>

namespace kilter::tune {
namespace {

/// Adds a fusion choice unless `options` already has one for the node.
void add_fusion(const std::string& node, Fusion fusion, CompileOptions& options) {
  if (options.no_fuse.contains(node) || options.fuse.contains(node) || options.apart.contains(node)) return;
  if (fusion == Fusion::none) options.no_fuse.insert(node);
  if (fusion == Fusion::before) options.fuse.insert(node);
  if (fusion == Fusion::apart) options.apart.insert(node);
}

}  // namespace

std::string_view name(Fusion fusion) {
  constexpr std::string_view kNames[] = {"usual", "no", "before", "apart"};
  return kNames[static_cast<size_t>(fusion)];
}

void add_settings(const Choices& choices, CompileOptions& options) {
  for (const auto& [node, choice] : choices) {
    if (choice.threads > 0) options.layer_threads.emplace(node, choice.threads);
    if (choice.plain) options.plain_layout.insert(node);
    add_fusion(node, choice.fuse, options);
  }
}

void add_schedules(const Choices& choices, CompileOptions& options) {
  for (const auto& [node, choice] : choices) {
    if (choice.schedule) options.schedules.emplace(node, *choice.schedule);
  }
}

std::string text(const LayerChoice& choice) {
  std::string out = choice.schedule ? choice.schedule->text() : "";
  const auto add = [&](const std::string& setting) { out += (out.empty() ? "" : " ") + setting; };
  if (choice.threads > 0) add(fmt::format("threads={}", choice.threads));
  if (choice.plain) add("layout=plain");
  if (choice.fuse != Fusion::usual) add(fmt::format("fuse={}", name(choice.fuse)));
  return out;
}

}  // namespace kilter::tune
