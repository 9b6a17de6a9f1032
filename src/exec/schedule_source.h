// Where a step's schedule comes from, told from Step::record.
#pragma once

#include <cstdint>
#include <string_view>

#include "exec/plan.h"

namespace kilter {

enum class ScheduleSource : uint8_t {
  fallback,    ///< the default of the analytic model
  record,      ///< a tuning record
  layer_plan,  ///< a file of schedules by layer
  given,       ///< the command line, or CompileOptions::schedules
};

/// What Step::record begins with where it is no record's.
constexpr std::string_view kFromLayerPlan = "layer plan ", kGiven = "given with --schedule";

inline ScheduleSource schedule_source(std::string_view record) {
  if (record.empty()) return ScheduleSource::fallback;
  if (record.starts_with(kFromLayerPlan)) return ScheduleSource::layer_plan;
  return record == kGiven ? ScheduleSource::given : ScheduleSource::record;
}

/// "default", "record", "layer plan", "given".
constexpr std::string_view name(ScheduleSource source) {
  constexpr std::string_view kNames[] = {"default", "record", "layer plan", "given"};
  return kNames[static_cast<size_t>(source)];
}

}  // namespace kilter
