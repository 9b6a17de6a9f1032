#include "compile/choices.h"

#include <fmt/format.h>

namespace kilter {

std::string_view name(Fusion fusion) {
  constexpr std::string_view kNames[] = {"usual", "no", "before", "apart"};
  return kNames[static_cast<size_t>(fusion)];
}

const LayerChoice& choice_for(const Choices& choices, const std::string& node) {
  static const LayerChoice kNoChoice;
  const auto it = choices.find(node);
  return it == choices.end() ? kNoChoice : it->second;
}

const Schedule* forced_schedule(const Choices& choices, const std::string& node) {
  const LayerChoice& choice = choice_for(choices, node);
  return choice.forced() ? &*choice.schedule : nullptr;
}

void add(const Choices& more, Choices& choices) {
  for (const auto& [node, from] : more) {
    LayerChoice& to = choices[node];
    if (from.schedule && (!to.schedule || (from.forced() && !to.forced())))
      to.schedule = from.schedule, to.schedule_from = from.schedule_from;
    if (to.threads == 0) to.threads = from.threads, to.threads_from = from.threads_from;
    if (!to.plain) to.plain = from.plain, to.plain_from = from.plain_from;
    if (to.fuse == Fusion::usual) to.fuse = from.fuse, to.fuse_from = from.fuse_from;
  }
}

Choices without_schedules(Choices choices) {
  for (auto& [node, choice] : choices) choice.schedule.reset();
  std::erase_if(choices, [](const auto& entry) { return entry.second == LayerChoice(); });
  return choices;
}

std::set<std::string> nodes_with(const Choices& choices, Fusion fusion) {
  std::set<std::string> nodes;
  for (const auto& [node, choice] : choices) {
    if (choice.fuse == fusion) nodes.insert(node);
  }
  return nodes;
}

std::string text(const LayerChoice& choice) {
  std::string out = choice.schedule ? choice.schedule->text() : "";
  const auto add = [&](const std::string& setting) { out += (out.empty() ? "" : " ") + setting; };
  if (choice.threads > 0) add(fmt::format("threads={}", choice.threads));
  if (choice.plain) add("layout=plain");
  if (choice.fuse != Fusion::usual) add(fmt::format("fuse={}", name(choice.fuse)));
  return out;
}

}  // namespace kilter
