// Times of a variant's layers from its runs. Steps take up to twice as long while another hardware thread works on the
// core, and runs that waited for a CPU take longer still. Runs of both kinds are left out if a round has other runs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tune/run/runner.h"

namespace kilter::tune {

struct LayerTime {
  double ms = 0;       ///< time of its steps and of the gaps before them; 0: the round has no run
  bool alone = false;  ///< its steps had the core to themselves, in runs that did not wait for a CPU
};

/// Time of a layer in one run.
LayerTime layer_time(const Lap& lap, const std::vector<size_t>& steps);
/// Mean over the runs of a round in which the layer had the core to itself; over all runs if there are none.
LayerTime layer_time(const std::vector<Lap>& laps, int64_t round, const std::vector<size_t>& steps);
/// Time of a layer over all runs: the mean of the middle half of those in which it had the core to itself, or of all
/// runs if there are none.
double usual_ms(const std::vector<Lap>& laps, const std::vector<size_t>& steps);
/// Finds times that are much longer than a layer's shortest one, although no counter shows that something else used the
/// core. Ratios over such times are meaningless.
class UsualTimes {
 public:
  static constexpr double kMost = 2;
  /// Records a time of a layer under the same schedule. Returns whether it is at most kMost times the shortest so far.
  bool is_usual(const std::string& layer, double ms);

 private:
  std::map<std::string, double> least_;
};
/// The faults in words, for messages; "no reason is known" without faults.
std::string reasons(const Laps& laps);
/// Milliseconds of a run of the first variant: the mean of the middle half over the rounds. Throws unsupported with
/// reasons() if none of its runs completed.
double default_run_ms(const Laps& laps);
/// Milliseconds of a whole run in a round: the sum of all steps by layer_time(), and the time between them; 0: no run.
double run_ms(const std::vector<Lap>& laps, int64_t round);

}  // namespace kilter::tune
