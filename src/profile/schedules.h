// Explains what a plan's layers run and why: the schedule, the model's prediction, the bound, and why no other template
// or schedule was chosen. All of this is static; nothing is run or measured.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compile/compile.h"

namespace kilter::profile {

/// The fewest cycles of one core that any code for a layer can take, according to the target's limits.
struct StaticBound {
  double cycles = 0;
  std::string by;  ///< "arithmetic": the target's multiply-adds per cycle; "bytes": streaming the operands once
};

/// One task of a plan with its stages, or a halo.
struct LayerSchedule {
  std::vector<size_t> steps;               ///< stages in order; facts about the task are noted at the last one
  int64_t flops = 0, effective_flops = 0;  ///< of all stages: executed, and as the operators are defined
  int64_t bytes = 0;                       ///< operands of all stages, read and written once each
  StaticBound bound;
  double exact_least = 0;  ///< bound in cycles for other schedules that do the arithmetic of the operators' definition
  double any_least = 0;    ///< bound in cycles for any schedule
};

/// Describes, in words with figures, how much larger the error of a schedule is than that of plain sums of the
/// operator's products. Empty for templates that do not approximate, for "reference", and for layers without a
/// schedule.
std::string_view approximation_of(const std::string& schedule);

/// Returns, in order, the layers of a plan that was compiled with CompileContents::alternatives.
std::vector<LayerSchedule> layer_schedules(const Compiled& compiled, const CpuLimits& limits);

/// Returns the names of the layers that `node` denotes in --asm and --node: the layer of that name if there is one,
/// otherwise the layers, if any, that run this node of the model (Compiled::layers_of_nodes). `layers` contains all
/// names.
std::vector<std::string> layers_named(const Compiled& compiled, const std::set<std::string>& layers,
                                      const std::string& node);

/// Returns one line, without a newline, that states how many layers gave up speed for smaller packed weights, how much
/// this saved and what the limit is. Empty if no layer did.
std::string memory_text(const Compiled& compiled);

/// Returns one paragraph per layer for readers; if `node` is given, only for the layers that layers_named() finds.
/// Throws usage, listing the legal names, if there are none.
std::string schedules_text(const Compiled& compiled, const CpuLimits& limits, const std::string& node = "");
/// Returns the layers as JSON; doc/inspect.md lists the fields.
nlohmann::json schedules_json(const Compiled& compiled, const CpuLimits& limits, const std::string& node = "");

}  // namespace kilter::profile
