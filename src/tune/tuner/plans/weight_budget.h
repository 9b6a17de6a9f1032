// What a plan's packed weights may take beyond the default plan's. The search compiles without the limit, so that what
// one layer tries does not change another; plans that are raced and kept stay within it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "tune/tuner/plans/layer_choice.h"

namespace kilter::tune {

/// Something that a plan may leave out.
struct WeightClaim {
  size_t id = 0;
  int64_t bytes = 0;  ///< that its packed weights take more than without it
  double gain = 0;    ///< of time, in any unit
};

/// Of claims that together take more than `room` bytes: the id of that which gains least for a byte; nothing where they
/// take no more, or none takes any.
std::optional<size_t> first_to_go(std::span<const WeightClaim> claims, int64_t room);

/// Bytes of packed weights by the template's model; 0 where it has none.
int64_t packed_bytes(const Task& task, const Schedule& schedule, const TargetLimits& limits);

/// Bytes that a plan's weights may take beyond those of `compiled`.
inline int64_t weight_room(const Compiled& compiled) { return compiled.weight_limit - compiled.weight_bytes; }

/// The schedules that layers of a plan have for their smaller weights, by anchor.
std::map<std::string, Schedule> slimmed_schedules(const Compiled& compiled);

/// `choices` made against the default plan `compiled`, with what its layers gave up: a compilation to them then has no
/// reason to choose anew what is given up. No choices stay none.
Choices with_slimmed(Choices choices, const Compiled& compiled);

}  // namespace kilter::tune
