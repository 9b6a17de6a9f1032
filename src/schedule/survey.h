// Explains a choice of template: the result of every template for a task, chosen or not.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "schedule/schedule.h"

namespace kilter {

/// Rejected::check of a schedule that was given up because packed weights were too large.
constexpr std::string_view kWeightBytes = "bytes of packed weights in the network";

/// One template's result for one task.
struct TemplateView {
  enum Standing : uint8_t {
    chosen,     ///< the task runs its schedule
    preferred,  ///< would be the default, but another schedule was forced
    behind,     ///< could run the task, but a preferred template does
    barred,     ///< could run the task, but `--accuracy strict` excludes it
    forbidden,  ///< could run the task, but `--forbid` excludes it
    given_up,   ///< could run the task, but its packed weights exceed the network's limit
    rejected,   ///< cannot be the default of this task, for the reason `why`
  };
  const Template* from = nullptr;
  Standing standing = rejected;
  std::optional<Rejected> why;       ///< set if rejected, barred, forbidden or given up
  std::optional<Schedule> fallback;  ///< the schedule that it would pick, or that was forced; none if rejected
  std::vector<Ranked> ranked;        ///< its best schedules by its model, even if it is rejected; may be empty
};
std::string_view name(TemplateView::Standing standing);

/// All templates in order of preference. `chosen` is the result of choose(); its rejections are kept, since a default
/// can still fail in lowering. `most`: number of ranked schedules per template.
std::vector<TemplateView> survey(const Task& task, const CpuLimits& limits, const Chosen& chosen, Accuracy accuracy,
                                 size_t most);

/// The view of the template that was chosen; null if the reference kernel runs.
const TemplateView* chosen_of(const std::vector<TemplateView>& views);

/// Schedules to try instead of `taken`. The order is: the runner-up of the same template; the best schedule of each
/// other template that has ranked ones and is neither barred nor forbidden, because predictions for different templates
/// are less comparable than those for one; all others, fewest cycles first.
std::vector<Ranked> rivals(const std::vector<TemplateView>& views, const Schedule& taken);

}  // namespace kilter
