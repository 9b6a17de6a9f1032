// What records say of a network's layers.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tune/records/record.h"
#include "tune/tuner/graph_best/layer_network.h"

namespace kilter::tune {

/// Records of exactly these conditions, by task. They outlive it.
class RecordedCosts {
 public:
  struct Query {
    std::string target, device, codegen;
    int threads = 1;
  };
  RecordedCosts(std::span<const Record> records, const Query& query);

  /// What a schedule is believed to cost on a layer, over the layer's default (ratios over another default: see
  /// OverDefault). What was measured on this layer counts in full, what was measured on others as one measurement; the
  /// value is drawn towards the mean of the task's schedules (Beliefs), the interval is that of the samples.
  struct Known {
    Schedule schedule;
    Ratio ratio;
  };
  /// Of a layer's task, those that did not fail: the `most` cheapest, and the cheapest of each template that is within
  /// a third of the default. Cheapest on all layers of the task.
  std::vector<Known> best(const Layer& layer, size_t most) const;
  /// Nothing for a schedule without records, and for one that failed.
  std::optional<Known> find(const Layer& layer, const Schedule& schedule) const;
  /// Milliseconds of the default schedule where the task was measured; 0: not known.
  double default_ms(const Layer& layer) const;

 private:
  std::span<const Record* const> task(const Layer& layer) const;
  std::map<std::string, std::vector<const Record*>> tasks_;  ///< by problem and layouts
};

}  // namespace kilter::tune
