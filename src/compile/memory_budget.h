// Which layers give up speed for smaller packed weights when a network is to fit into less memory.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "schedule/schedule.h"

namespace kilter {

/// A schedule as the budget sees it.
struct Holding {
  Schedule schedule;
  int64_t bytes = 0;  ///< of its packed weights
  double cycles = 0;  ///< by its template's model
};

/// A task that could run with smaller packed weights.
struct Tradable {
  std::string node;  ///< name of its anchor
  Holding now;
  std::vector<Holding> others;
};

/// A task that runs `taken`, with all other schedules that models rank; nothing where no template that takes
/// it packs larger weights than others (those that approximate do).
std::optional<Tradable> tradable(const Task& task, const Schedule& taken, const TargetLimits& limits);

struct Trade {
  std::map<std::string, Schedule> schedules;  ///< new ones, by node
  int64_t saved = 0;                          ///< bytes
};

/// Exchanges schedules until `excess` bytes are saved or nothing smaller is left: each time the exchange that costs
/// fewest cycles for a byte. Deterministic.
Trade trade(std::vector<Tradable> tasks, int64_t excess);

/// Bytes of all constants of a graph.
int64_t parameter_bytes(const Graph& graph);

/// Throws usage where a network's packed weights and arena are larger than `memory` bytes. `slimmed`: layers that run
/// kernels with smaller weights already.
void check_budget(const std::string& model, int64_t memory, int64_t weights, int64_t arena, int64_t slimmed);

}  // namespace kilter
