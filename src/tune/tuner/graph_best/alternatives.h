// Gives a network's layers their alternatives and measures them in place, in a few variants of the whole network. Each
// variant runs a different alternative in every layer that still has one.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tune/tuner/graph_best/layer_network.h"
#include "tune/tuner/graph_best/recorded_costs.h"
#include "tune/tuner/network_bench.h"
#include "tune/tuner/plan_memory.h"

namespace kilter::tune {

struct AlternativeOptions {
  int threads = 1;
  size_t schedules = 4;      ///< for each layer, in addition to the default
  double seconds = 8;        ///< measuring time, without compiling
  double end_ms = INFINITY;  ///< on the clock of now_ms(); after it, only the first variants are still compiled
  std::function<bool()> interrupted = {};
  std::function<void()> beat = {};  ///< called between trials
};

/// Adds schedules from records (including those in `keep`) or, if there are none, the best of each template according
/// to its analytic model, with an error that only measurement removes. Also fills in the default times of layers that
/// have none yet, if a record or an analytic model gives them. With `memory`, schedules of other templates may take up
/// to kMostTime times as long as the default, and every alternative gets its bytes.
void add_schedules(LayerNetwork& network, const Compiled& compiled, const CompileOptions& options,
                   const RecordedCosts& costs, const Choices& keep, size_t most, const LayerMemory* memory = nullptr);

struct Measured {
  int64_t variants = 0;  ///< of the network
  /// Share of the rounds with other numbers of threads in which other processes took CPUs away. These rounds give no
  /// information about an undisturbed machine and are left out.
  double crowded = 0;
};

/// Adds the alternatives whose cost only measuring can show (fusion, plain layouts if templates accept them, and fewer
/// threads for short layers), and measures all alternatives and the cost of neighbours with different thread counts.
Measured measure_alternatives(NetworkBench& bench, LayerNetwork& network, const AlternativeOptions& options);

}  // namespace kilter::tune
