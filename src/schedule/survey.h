// What every template says of a task, whichever was taken: for those who ask why.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "schedule/schedule.h"

namespace kilter {

/// Rejected::check of what was given up since packed weights were too large.
constexpr std::string_view kWeightBytes = "bytes of packed weights in the network";

/// One template's answer for one task.
struct TemplateView {
  enum Standing : uint8_t {
    chosen,     ///< its schedule is the task's
    preferred,  ///< would be the default; another schedule was forced
    behind,     ///< would take the task; one before it in the order of preference does
    barred,     ///< would take the task; `--accuracy strict` leaves it out
    forbidden,  ///< would take the task; `--forbid` leaves it out
    given_up,   ///< would take the task; its packed weights are too large for the network's limit
    rejected,   ///< is no default of this task: `why`
  };
  const Template* from = nullptr;
  Standing standing = rejected;
  std::optional<Rejected> why;       ///< where rejected, barred, forbidden or given up
  std::optional<Schedule> fallback;  ///< the schedule that it would pick, or that was forced; none where rejected
  std::vector<Ranked> ranked;        ///< its best by its model, also where it is rejected by its model; may be empty
};
std::string_view name(TemplateView::Standing standing);

/// All templates in order of preference. `chosen`: the outcome of choose(), whose rejections are kept (a default can
/// still fail in lowering); `most`: schedules ranked of each template.
std::vector<TemplateView> survey(const Task& task, const TargetLimits& limits, const Chosen& chosen, Accuracy accuracy,
                                 size_t most);

/// The answer of the template that was taken; null where the reference kernel runs.
const TemplateView* chosen_of(const std::vector<TemplateView>& views);

/// Schedules to try instead of `taken`: the runner-up of its own template first, then the best of each other template
/// whose model ranks some and which is neither barred nor forbidden (models of two templates are less comparable than
/// two schedules of one), then the rest, fewest cycles first.
std::vector<Ranked> rivals(const std::vector<TemplateView>& views, const Schedule& taken);

}  // namespace kilter
