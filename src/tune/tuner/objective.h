// What tuning minimises: the time of a run, the memory of the plan, or both with weights.
#pragma once

#include <string>
#include <string_view>

#include "measure/stats.h"

namespace kilter::tune {

/// The score of a plan is the weighted geometric mean of its time and its bytes, each divided by those of the plan with
/// which it is compared. Less is better.
struct TuneObjective {
  int latency = 100, memory = 0;  ///< weights in percent, 100 together

  bool operator==(const TuneObjective&) const = default;
  bool weighs_memory() const { return memory > 0; }
  /// The score of a plan; `time` and `bytes` are ratios over the other plan. Without a weight of memory, it is `time`.
  Ratio score(const Ratio& time, double bytes) const;
  /// The time that is worth as much as one byte, near a plan that takes `time` and `bytes`: the score stays the same if
  /// a plan takes this much longer and needs one byte less.
  double price(double time, double bytes) const;
};

/// The longest time that a schedule may take, over the default schedule of its layer, to be chosen for its memory.
constexpr double kMostTime = 2;

/// The weights that "memory" stands for. Bytes decide, and the time only between plans of nearly the same size.
constexpr TuneObjective kMemoryObjective{5, 95};

/// Parses "latency", "memory", or weights such as "latency:80,memory:20". Throws usage for anything else.
TuneObjective parse_objective(std::string_view text);
/// The text that parse_objective() reads.
std::string text(const TuneObjective& objective);

}  // namespace kilter::tune
