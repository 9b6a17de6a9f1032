// The source of a step's schedule, derived from Step::record.
#pragma once

#include <cstdint>
#include <string_view>

#include "exec/plan.h"

namespace kilter {

enum class ScheduleSource : uint8_t {
  fallback,    ///< the default of the analytic model
  record,      ///< a tuning record
  layer_plan,  ///< a file of schedules by layer
  given,       ///< the command line, or CompileOptions::choices
};

/// Step::record of a schedule from a layer plan begins with kFromLayerPlan; that of a given schedule is kGiven.
constexpr std::string_view kFromLayerPlan = "layer plan ", kGiven = "given with --schedule";

inline ScheduleSource schedule_source(std::string_view record) {
  if (record.empty()) return ScheduleSource::fallback;
  if (record.starts_with(kFromLayerPlan)) return ScheduleSource::layer_plan;
  return record == kGiven ? ScheduleSource::given : ScheduleSource::record;
}

/// Returns "default", "record", "layer plan" or "given".
constexpr std::string_view name(ScheduleSource source) {
  constexpr std::string_view kNames[] = {"default", "record", "layer plan", "given"};
  return kNames[static_cast<size_t>(source)];
}

}  // namespace kilter
