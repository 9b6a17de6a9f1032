// Chooses the layers that give up speed for smaller packed weights when a network must fit into less memory.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "schedule/schedule.h"

namespace kilter {

/// What the budget needs to know about a schedule.
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

/// The task with its chosen schedule `taken`, and all other schedules that models rank. Empty unless the template of
/// `taken` approximates (only those templates pack larger weights than others) and has a model.
std::optional<Tradable> tradable(const Task& task, const Schedule& taken, const CpuLimits& limits);

struct Trade {
  std::map<std::string, Schedule> schedules;  ///< the new ones, by node
  int64_t saved = 0;                          ///< bytes
};

/// Exchanges schedules until `excess` bytes are saved or no smaller schedule is left. Each exchange is the one that
/// costs the fewest cycles per byte saved. Deterministic.
Trade trade(std::vector<Tradable> tasks, int64_t excess);

/// Bytes of all constants in a graph.
int64_t parameter_bytes(const Graph& graph);

/// Throws usage if a network's packed weights and arena exceed `memory` bytes. `slimmed`: number of layers that already
/// run kernels with smaller weights.
void check_budget(const std::string& model, int64_t memory, int64_t weights, int64_t arena, int64_t slimmed);

}  // namespace kilter
