// Gives a network's layers their alternatives, and measures these where they run: a few variants of the whole network,
// each with another alternative in every layer that has one.
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

namespace kilter::tune {

struct AlternativeOptions {
  int threads = 1;
  size_t schedules = 4;      ///< of a layer, beside the default
  double seconds = 8;        ///< that measuring may take; compiling comes on top
  double end_ms = INFINITY;  ///< of now_ms(): nothing new is compiled after it, but the first variants
  std::function<bool()> interrupted = {};
  std::function<void()> beat = {};  ///< called between trials
};

/// Schedules from records (`keep`'s among them), else the best of each template by its analytic model, which take the
/// place of records with an error that only measurement removes. Fills in what layers take by default where a record or
/// an analytic model knows, unless they have a time already.
void add_schedules(LayerNetwork& network, const Compiled& compiled, const CompileOptions& options,
                   const RecordedCosts& costs, const Choices& keep, size_t most);

struct Measured {
  int64_t variants = 0;  ///< of the network
  /// Share of the rounds with other numbers of threads in which other processes took CPUs away. They say nothing of a
  /// machine of its own, and are left out.
  double crowded = 0;
};

/// Adds what only measuring can judge, and measures all: fusion, plain layouts where templates take them, fewer threads
/// for short layers, what it costs that neighbours run on other numbers of threads.
Measured measure_alternatives(NetworkBench& bench, LayerNetwork& network, const AlternativeOptions& options);

}  // namespace kilter::tune
