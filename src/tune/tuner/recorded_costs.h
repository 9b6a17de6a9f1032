// What records say of a network's layers.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "tune/records/record.h"
#include "tune/tuner/layer_network.h"
#include "tune/tuner/noise.h"

namespace kilter::tune {

/// Records of exactly these conditions, by task.
class RecordedCosts {
 public:
  struct Query {
    std::string target, device, codegen;
    int threads = 1;
  };
  RecordedCosts(std::span<const Record> records, const Query& query);

  struct Known {
    Schedule schedule;
    bool failed = false;
    LogRatios all;                           ///< over the default's time
    std::map<std::string, LogRatios> nodes;  ///< by layer that it was measured on

    /// On one layer: what was measured there counts in full, what was measured on others as one measurement.
    LogRatios at(const std::string& node) const;
  };
  /// Of a layer's task, those that did not fail: the `most` cheapest, and the cheapest of each template that is within
  /// a third of the default.
  std::vector<const Known*> best(const Layer& layer, size_t most) const;
  /// Null for a schedule without records.
  const Known* find(const Layer& layer, const Schedule& schedule) const;
  /// Milliseconds of the default schedule where the task was measured; 0: not known.
  double default_ms(const Layer& layer) const;

 private:
  struct Task {
    std::map<std::string, Known> schedules;
    std::map<std::string, std::vector<double>> default_ms;  ///< by the default's text
  };
  const Task* task(const Layer& layer) const;
  std::map<std::string, Task> tasks_;  ///< by problem and layouts
};

}  // namespace kilter::tune
