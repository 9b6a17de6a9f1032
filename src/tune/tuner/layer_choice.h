// What is chosen of each layer of a network: its schedule, and what else may differ from the defaults.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "compile/compile.h"

namespace kilter::tune {

/// What is not given stays as it is by default. Schedules, threads and fusion are those of a task and go by its
/// anchor's name; a layout is each node's own.
struct LayerChoice {
  LayerChoice() = default;
  LayerChoice(Schedule of_task) : schedule(std::move(of_task)) {}  // NOLINT(google-explicit-constructor)

  std::optional<Schedule> schedule;
  int32_t threads = 0;  ///< most that the task runs on; 0: all
  bool plain = false;   ///< the node's operands keep the plain layout
  bool fuse = true;     ///< false: the task takes no element-wise node in, and no convolution before it

  bool operator==(const LayerChoice&) const = default;
  /// It changes what the passes make of the graph.
  bool changes_passes() const { return plain || !fuse; }
};

/// By node.
using Choices = std::map<std::string, LayerChoice>;

/// Adds all of `choices` but their schedules to what is asked for already; of two answers the earlier one stays.
void add_settings(const Choices& choices, CompileOptions& options);
/// The schedules alone, where `options` has none for the layer yet.
void add_schedules(const Choices& choices, CompileOptions& options);

/// "conv2d_direct vectors=2 rows=1 tile=8 prefetch=0 threads=1 layout=plain fuse=no": what is given of it.
std::string text(const LayerChoice& choice);

}  // namespace kilter::tune
