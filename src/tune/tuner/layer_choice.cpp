#include "tune/tuner/layer_choice.h"

#include <fmt/format.h>

namespace kilter::tune {

void add_settings(const Choices& choices, CompileOptions& options) {
  for (const auto& [node, choice] : choices) {
    if (choice.threads > 0) options.layer_threads.emplace(node, choice.threads);
    if (choice.plain) options.plain_layout.insert(node);
    if (!choice.fuse) options.no_fuse.insert(node);
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
  if (!choice.fuse) add("fuse=no");
  return out;
}

}  // namespace kilter::tune
