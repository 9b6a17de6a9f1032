// What a plan's layers run and why: schedule, expectation of the model, bound, and why no other template or schedule
// was taken. All of it static: nothing is run or measured.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compile/compile.h"

namespace kilter::profile {

/// Cycles of one core below which no code for a layer can come, by the target's limits.
struct StaticBound {
  double cycles = 0;
  std::string by;  ///< "arithmetic": the target's multiply-adds a cycle; "bytes": operands once, in a stream
};

/// One task of a plan with its stages; or a halo.
struct LayerSchedule {
  std::vector<size_t> steps;               ///< stages, in order; what is known of the task is noted at the last
  int64_t flops = 0, effective_flops = 0;  ///< of all stages, executed and as the operators are defined
  int64_t bytes = 0;                       ///< operands of all stages, read and written once each
  StaticBound bound;
  double exact_least = 0;  ///< bound in cycles of other schedules that do the arithmetic of the operators' definition
  double any_least = 0;    ///< and of any schedule
};

/// How much a schedule, as text, errs more than sums of the operator's products do, in words with figures; empty for
/// templates that do not approximate, "reference", and layers without a schedule.
std::string_view approximation_of(const std::string& schedule);

/// The layers of a plan that was compiled with CompileOptions::keep_alternatives, in order.
std::vector<LayerSchedule> layer_schedules(const Compiled& compiled, const TargetLimits& limits);

/// Names of the layers that --asm and --node mean by `node`: its own where a layer has it, else those that run this
/// node of the model (Compiled::layers_of_nodes); empty without any. `layers`: all names.
std::vector<std::string> layers_named(const Compiled& compiled, const std::set<std::string>& layers,
                                      const std::string& node);

/// How many layers gave up speed for smaller packed weights, what that saved and what the limit is: one line without
/// its end; empty where none did.
std::string memory_text(const Compiled& compiled);

/// For readers, a paragraph a layer; `node`: only the layers that layers_named() finds. Throws usage, listing the legal
/// names, when there is none.
std::string schedules_text(const Compiled& compiled, const TargetLimits& limits, const std::string& node = "");
/// The same as JSON; doc/inspect.md lists the fields.
nlohmann::json schedules_json(const Compiled& compiled, const TargetLimits& limits, const std::string& node = "");

}  // namespace kilter::profile
