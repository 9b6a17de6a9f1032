// What runs of a variant say about its layers. Steps during which another hardware thread worked on the core take up to
// twice as long, and runs that waited for a CPU longer still; both are left out as far as a round has others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tune/run/runner.h"

namespace kilter::tune {

struct LayerTime {
  double ms = 0;       ///< its steps with the gaps before them; 0: the round has no run
  bool alone = false;  ///< of steps that had the core for themselves, in runs that nothing held up
};

/// Mean of one run.
LayerTime layer_time(const Lap& lap, const std::vector<size_t>& steps);
/// Mean over the runs of a round in which the layer had the core for itself; where there are none, over all.
LayerTime layer_time(const std::vector<Lap>& laps, int64_t round, const std::vector<size_t>& steps);
/// Of a layer over all runs, those in which it had the core for itself as far as there are some: mean of the middle
/// half.
double usual_ms(const std::vector<Lap>& laps, const std::vector<size_t>& steps);
/// The faults' words, for messages; "no reason is known" without faults.
std::string reasons(const Laps& laps);
/// Milliseconds of a run of the first variant: mean of the middle half over the rounds. Throws unsupported with
/// reasons() where none of its runs came to an end.
double default_run_ms(const Laps& laps);
/// Milliseconds of a whole run: all steps, each as layer_time() has it, and what is between them; 0: no run.
double run_ms(const std::vector<Lap>& laps, int64_t round);

}  // namespace kilter::tune
