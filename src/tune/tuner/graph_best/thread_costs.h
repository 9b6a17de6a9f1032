// The cost of running layers on fewer threads, and of running neighbours on different numbers of threads, which leaves
// part of the earlier layer's result in other cores' caches.
#pragma once

#include <map>
#include <vector>

#include "tune/tuner/graph_best/layer_network.h"

namespace kilter::tune {

/// Standard error of the mean of `extra`, milliseconds over a time of `base_ms`. It is at least the known scatter of
/// single layers.
double mean_error(const std::vector<double>& extra, double base_ms);

class ThreadCosts {
 public:
  /// Adds one round of a layer on `own` threads after its feeder (feeder()) ran on `before` threads; 0: all. `extra`:
  /// milliseconds in excess of its time with all layers on all threads.
  void note(size_t layer, int32_t before, int32_t own, double extra) { layers_[layer][{before, own}].push_back(extra); }
  /// Adds each alternative with each number of threads that may save time, and the costs of changing that number
  /// between layers.
  void expand(LayerNetwork& network) const;

 private:
  using Cells = std::map<std::pair<int32_t, int32_t>, std::vector<double>>;
  void expand(Layer& layer, const Cells& cells) const;
  void join(LayerNetwork& network, size_t from, size_t to, const Cells& cells) const;
  std::map<size_t, Cells> layers_;
};

}  // namespace kilter::tune
