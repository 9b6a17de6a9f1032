// The places at which values are read while a variant runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "exec/plan.h"
#include "tune/run/value.h"

namespace kilter::tune {

/// The contents of a buffer right after a step has run.
struct Tap {
  uint64_t step = 0;
  BufferRef buffer;  ///< in the arena or an output
};

/// Returns the bytes that a value occupies during a run. `start`: the place from which the layout's offsets count.
BufferRef occupied(BufferRef start, const ValueLayout& layout);
/// Bytes of the arena, or of an output; 0 for a space that steps do not write and for an output that does not exist.
int64_t written_space_bytes(const Plan& plan, const BufferRef& ref);
/// Returns the bytes of all taps. Throws internal if a tap is outside the plan's steps or its space, and unsupported if
/// there are more than `most` bytes.
int64_t check_taps(const Plan& plan, std::span<const Tap> taps, int64_t most);

}  // namespace kilter::tune
