// What each layer of a network contributes to the error and to the time of a narrow precision.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "compile/session.h"

namespace kilter::mixed {

/// Inputs of a network by name.
using Sample = std::map<std::string, Tensor>;

struct LayerCost {
  std::string layer;               ///< name of its anchor
  std::string ops;                 ///< operators fused, "Conv+Relu"
  std::vector<std::string> nodes;  ///< the nodes of the model that it runs; if empty, the layer cannot be kept in f32
  double error = 0;                ///< error() of the outputs if only this layer is narrow
  double wide_ms = 0, narrow_ms = 0;
};

/// Returns the largest difference of any output's elements, relative to that output's largest magnitude. Outputs of
/// other than float types do not count. Infinite if an element is NaN or infinite on one side only.
double error(const std::vector<Tensor>& got, const std::vector<Tensor>& want);

/// Returns the layers of the narrow network that contribute to its error or take time, in the order of their steps.
///
/// No network is compiled for a single layer. The error of a layer by itself is the difference between its result in
/// the narrow network and that of the wide network's layer on the same operands. The wide network then runs with this
/// error added to the layer's result, which shows the effect on the outputs. The largest of any sample counts. Times
/// are medians over alternating runs of both networks, on the first sample.
std::vector<LayerCost> layer_costs(Session& wide, Session& narrow, std::span<const Sample> samples,
                                   const std::function<void(const std::string& doing)>& progress);

}  // namespace kilter::mixed
