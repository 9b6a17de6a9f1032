// Reads the times measured for a request from shared memory, which the code under test may have overwritten.
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

/// Parses the laps in a log. `steps`: number of steps of each variant in the request. Empty for bytes that no worker
/// would write: incomplete records, unexpected variants, step counts or rounds, or times that are not numbers.
std::optional<std::vector<LoggedLap>> read_laps(std::span<const std::byte> log,
                                                const std::map<VariantId, size_t>& steps, const RoundsRequest& request);

}  // namespace kilter::tune
