// Costs of a network's layers according to records.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tune/records/record.h"
#include "tune/tuner/graph_best/layer_network.h"

namespace kilter::tune {

/// Records of exactly the given conditions, by task. Refers to the records, which must outlive it.
class RecordedCosts {
 public:
  struct Query {
    std::string target, device;
    KernelVersions versions;
    int threads = 1;
  };
  RecordedCosts(std::span<const Record> records, const Query& query);

  /// The believed cost of a schedule on a layer, over the layer's default (for ratios over a different default, see
  /// OverDefault). Measurements of this layer count in full; those of other layers together count as one measurement.
  /// The value is shrunk towards the mean of the task's schedules (Beliefs); the interval is that of the samples.
  struct Known {
    Schedule schedule;
    Ratio ratio;
  };
  /// The cheapest schedule of each template is an alternative if it took at most this multiple of the default's time.
  static constexpr double kOtherTemplate = 1.333;
  /// Returns schedules of a layer's task that did not fail: the `most` cheapest, and the cheapest of each template if
  /// it takes at most `slowest` times as long as the default. They are ranked by cost over all layers of the task.
  std::vector<Known> best(const Layer& layer, size_t most, double slowest = kOtherTemplate) const;
  /// Returns the known cost of a schedule; empty if it has no records or failed.
  std::optional<Known> find(const Layer& layer, const Schedule& schedule) const;
  /// Milliseconds of the default schedule if the task was measured; 0: unknown.
  double default_ms(const Layer& layer) const;

 private:
  std::span<const Record* const> task(const Layer& layer) const;
  std::map<std::string, std::vector<const Record*>> tasks_;  ///< by problem and layouts
};

}  // namespace kilter::tune
