// What is chosen of each layer of a network: its schedule, and what else may differ from the defaults.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "compile/compile.h"

namespace kilter::tune {

/// What a task runs in one kernel.
enum class Fusion : uint8_t {
  usual,   ///< what the passes decide
  none,    ///< "no": no element-wise node in it, and no convolution before it
  before,  ///< "before": with a depthwise convolution, whatever the model expects, the convolution before it
  apart,   ///< "apart": without the convolution before a depthwise one, element-wise nodes as the passes decide
};

/// What is not given stays as it is by default. Schedules, threads and fusion are those of a task and go by its
/// anchor's name; a layout is each node's own.
struct LayerChoice {
  LayerChoice() = default;
  LayerChoice(Schedule of_task) : schedule(std::move(of_task)) {}  // NOLINT(google-explicit-constructor)

  std::optional<Schedule> schedule;
  int32_t threads = 0;  ///< most that the task runs on; 0: all
  bool plain = false;   ///< the node's operands keep the plain layout
  Fusion fuse = Fusion::usual;

  bool operator==(const LayerChoice&) const = default;
  /// It changes what the passes make of the graph.
  bool changes_passes() const { return plain || fuse != Fusion::usual; }
};

/// By node.
using Choices = std::map<std::string, LayerChoice>;

/// "no", "before", "apart"; "usual" has no word in a plan.
std::string_view name(Fusion fusion);

/// Adds all of `choices` but their schedules to what is asked for already; of two answers the earlier one stays.
void add_settings(const Choices& choices, CompileOptions& options);
/// The schedules alone, where `options` has none for the layer yet.
void add_schedules(const Choices& choices, CompileOptions& options);

/// "conv2d_direct vectors=2 rows=1 tile=8 prefetch=0 threads=1 layout=plain fuse=no": what is given of it.
std::string text(const LayerChoice& choice);

}  // namespace kilter::tune
