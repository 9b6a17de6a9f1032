// The choices for a layer of a network: its schedule and other settings that may differ from the defaults.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "compile/compile.h"

namespace kilter::tune {

/// The nodes that a task fuses into one kernel.
enum class Fusion : uint8_t {
  usual,   ///< what the passes decide
  none,    ///< "no": no element-wise nodes, and no convolution before it
  before,  ///< "before": a depthwise convolution includes the convolution before it, whatever the model expects
  apart,   ///< "apart": without the convolution before a depthwise one; the passes decide on element-wise nodes
};

/// Choices that are not made keep their defaults. Schedules, threads and fusion belong to a task and are keyed by its
/// anchor's name; layouts are chosen node by node.
struct LayerChoice {
  LayerChoice() = default;
  LayerChoice(Schedule of_task) : schedule(std::move(of_task)) {}  // NOLINT(google-explicit-constructor)

  std::optional<Schedule> schedule;
  int32_t threads = 0;  ///< maximum number of threads for the task; 0: all
  bool plain = false;   ///< the node's operands keep the plain layout
  Fusion fuse = Fusion::usual;

  bool operator==(const LayerChoice&) const = default;
  /// Whether it changes the result of the passes.
  bool changes_passes() const { return plain || fuse != Fusion::usual; }
};

/// Choices by node.
using Choices = std::map<std::string, LayerChoice>;

/// "no", "before" or "apart"; "usual" is not written to plans.
std::string_view name(Fusion fusion);

/// Adds all of `choices` except the schedules to `options`. A setting that `options` already has stays.
void add_settings(const Choices& choices, CompileOptions& options);
/// Adds only the schedules, for layers that have none in `options`.
void add_schedules(const Choices& choices, CompileOptions& options);

/// "conv2d_direct vectors=2 rows=1 tile=8 prefetch=0 threads=1 layout=plain fuse=no": only the choices that were made.
std::string text(const LayerChoice& choice);

}  // namespace kilter::tune
