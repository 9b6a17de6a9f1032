// What layers take on fewer threads, and what it costs that the layer before ran on another number of them: part of
// what it made lies in the caches of other cores then.
#pragma once

#include <map>
#include <vector>

#include "tune/tuner/graph_best/layer_network.h"

namespace kilter::tune {

/// Standard error of the mean of `extra`, milliseconds over a time of `base_ms`; never below what single layers are
/// known to scatter by.
double mean_error(const std::vector<double>& extra, double base_ms);

class ThreadCosts {
 public:
  /// One round of a layer that ran on `own` threads, and the layer that feeds it (feeder()) on `before`; 0: all.
  /// `extra`: milliseconds over what it took with all layers on all threads.
  void note(size_t layer, int32_t before, int32_t own, double extra) { layers_[layer][{before, own}].push_back(extra); }
  /// Adds each alternative with each number of threads that may pay, and the costs of changing it between layers.
  void expand(LayerNetwork& network) const;

 private:
  using Cells = std::map<std::pair<int32_t, int32_t>, std::vector<double>>;
  void expand(Layer& layer, const Cells& cells) const;
  void join(LayerNetwork& network, size_t from, size_t to, const Cells& cells) const;
  std::map<size_t, Cells> layers_;
};

}  // namespace kilter::tune
