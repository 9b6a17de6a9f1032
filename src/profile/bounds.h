// The machine's bound for a region: the shortest time that any code for it can take.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exec/plan.h"
#include "measure/machine/machine_peaks.h"

namespace kilter::profile {

/// The share by which measured peaks may be too low. A layer that is faster than its bound by more than this counts as
/// beating it.
constexpr double kPeakError = 0.05;

struct Bound {
  enum Kind : uint8_t { none, compute, memory, overhead } kind = none;
  double ms = 0;
  std::string level;  ///< "FMA", "bf16", "int8", "L2", "L3", "DRAM", "fork and join"
};
std::string_view name(Bound::Kind kind);

/// The memory that a run uses, which determines where its operands come from.
struct Footprint {
  int64_t weights_bytes = 0;  ///< packed constants that one run reads
  int64_t touched_bytes = 0;  ///< including the arena and the inputs and outputs
  bool on_cpu = true;         ///< false: the plan runs on another device, of which no peaks are known
};
Footprint footprint(const Plan& plan);

/// Returns the bytes of the step's operands that are packed constants.
int64_t weight_bytes(const Step& step);

/// Returns the time to read the operands at the bandwidth of the nearest level from which they can come, and that
/// level. Weights come from L3 to the extent that a run touches more than L2 holds, and from DRAM to the extent that it
/// touches more than L3 holds; activations come from the nearest level that holds them. The step must not be a
/// reference step.
Bound memory_bound_of(const Step& step, const Footprint& run, const Peaks& peaks, int threads);

/// Returns the largest of: the arithmetic at the FMA peak, memory_bound_of(), and the cost of an empty region.
Bound bound_of(const Step& step, const Footprint& run, const Peaks& peaks, int threads);
/// Return the sum of the bounds of some steps, or of all.
double bound_ms(const Plan& plan, std::span<const size_t> steps, const Peaks& peaks, int threads);
double bound_ms(const Plan& plan, const Peaks& peaks, int threads);

}  // namespace kilter::profile
