// Choices for the layers of a network, which may differ from the defaults, and the origin of each.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "exec/schedule_source.h"
#include "schedule/schedule.h"

namespace kilter {

/// The nodes that a task fuses into one kernel.
enum class Fusion : uint8_t {
  usual,   ///< as the passes decide (default)
  none,    ///< "no": no element-wise nodes, and no convolution before it
  before,  ///< "before": a depthwise convolution includes the convolution before it, even if the model predicts a loss
  apart,   ///< "apart": without the convolution before a depthwise one; the passes decide on element-wise nodes
};
/// "no", "before" or "apart"; "usual" is not written to plans.
std::string_view name(Fusion fusion);

/// The origin of a choice.
struct Origin {
  ScheduleSource source = ScheduleSource::given;
  std::string words = {};  ///< layer_plan: the place, as in "net.plan line 3"; record: its own description
};

/// Choices that are not made keep their defaults. Schedules, threads and fusion belong to a task and are keyed by its
/// anchor's name; layouts are chosen node by node.
struct LayerChoice {
  LayerChoice() = default;
  LayerChoice(Schedule of_task, Origin from = {})  // NOLINT(google-explicit-constructor)
      : schedule(std::move(of_task)), schedule_from(std::move(from)) {}

  std::optional<Schedule> schedule;
  int32_t threads = 0;  ///< maximum number of threads for the task; 0: all
  bool plain = false;   ///< the node's operands keep the plain layout
  Fusion fuse = Fusion::usual;
  Origin schedule_from = {}, threads_from = {}, plain_from = {}, fuse_from = {};  ///< origins of these choices

  /// Returns whether both make the same choices, regardless of their origins.
  bool operator==(const LayerChoice& other) const {
    return schedule == other.schedule && threads == other.threads && plain == other.plain && fuse == other.fuse;
  }
  /// Returns whether this choice affects the result of the passes.
  bool changes_passes() const { return plain || fuse != Fusion::usual; }
  /// Returns whether the task must run this schedule. A schedule from a record need not run: it is used only if its
  /// template accepts the task and the options allow it, and it is dropped if packed weights become too large.
  bool forced() const { return schedule && schedule_from.source != ScheduleSource::record; }
  /// Records that all choices come from the same place.
  void set_origin(const Origin& origin) { schedule_from = threads_from = plain_from = fuse_from = origin; }
};

/// Choices by node.
using Choices = std::map<std::string, LayerChoice>;

/// The choice for a node; one without choices if there is none.
const LayerChoice& choice_for(const Choices& choices, const std::string& node);
/// The schedule that is forced on a task; null if there is none.
const Schedule* forced_schedule(const Choices& choices, const std::string& node);

/// Returns a choice that prefers this schedule to the default without forcing it, like one from a record.
inline LayerChoice preferred(Schedule schedule) { return {std::move(schedule), {ScheduleSource::record, {}}}; }

/// Adds choices that `choices` does not make yet. A schedule from a record is replaced by one that is forced.
void add(const Choices& more, Choices& choices);
/// Choices without their schedules.
Choices without_schedules(Choices choices);
/// Withdraws one choice for a node.
template <class T>
void take_back(Choices& choices, const std::string& node, T LayerChoice::* choice) {
  const auto it = choices.find(node);
  if (it == choices.end()) return;
  it->second.*choice = T{};
  if (it->second == LayerChoice()) choices.erase(it);
}
/// The nodes with this kind of fusion.
std::set<std::string> nodes_with(const Choices& choices, Fusion fusion);

/// "conv2d_direct vectors=2 rows=1 tile=8 prefetch=0 threads=1 layout=plain fuse=no": only the choices that were made.
std::string text(const LayerChoice& choice);

}  // namespace kilter
