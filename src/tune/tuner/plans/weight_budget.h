// Limits a plan's packed weights relative to the default plan's. The search compiles without this limit so that trials
// of one layer do not change another; plans that are raced and kept respect it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "compile/choices.h"
#include "compile/compile.h"

namespace kilter::tune {

/// A choice that a plan may drop.
struct WeightClaim {
  size_t id = 0;
  int64_t bytes = 0;  ///< additional bytes of packed weights
  double gain = 0;    ///< gain in time, in any unit
};

/// Returns the id of the claim with the smallest gain per byte if all claims together need more than `room` bytes;
/// empty if they fit or none needs any.
std::optional<size_t> first_to_go(std::span<const WeightClaim> claims, int64_t room);

/// Bytes of packed weights according to the template's model; 0 if it has none.
int64_t packed_bytes(const Task& task, const Schedule& schedule, const CpuLimits& limits);

/// Bytes that a plan's weights may occupy beyond those of `compiled`.
inline int64_t weight_room(const Compiled& compiled) { return compiled.weight_limit - compiled.weight_bytes; }

/// The schedules that layers of a plan run because these need less memory for weights, as preferred choices.
Choices slimmed_schedules(const Compiled& compiled);

/// Adds to `choices` the schedules that layers of the default plan `compiled` run because their weights are smaller.
/// `choices` must have been compared with that plan. If the result is compiled, there is then no reason to give up
/// other schedules. Empty choices stay empty.
Choices with_slimmed(Choices choices, const Compiled& compiled);

}  // namespace kilter::tune
