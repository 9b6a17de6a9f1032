// The times of a request to measure as the worker left them in shared memory, which what it runs can overwrite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "tune/run/runner.h"
#include "tune/run/wire.h"

namespace kilter::tune {

struct LoggedLap {
  VariantId variant = 0;
  Lap lap;
};

/// The laps in a log. `steps`: of each variant that the request is about. Nothing for bytes that no worker writes:
/// records cut off, variants, numbers of steps or rounds that were not asked for, times that are not numbers.
std::optional<std::vector<LoggedLap>> read_laps(std::span<const std::byte> log,
                                                const std::map<VariantId, size_t>& steps, const RoundsRequest& request);

}  // namespace kilter::tune
