// Decides which convolutions run the template conv2d_pixels, whose result is not blocked.
#pragma once

#include "graph/graph.h"
#include "target/target.h"

namespace kilter {

/// Whether the model expects a convolution with few output channels to run faster with a plain result than with a
/// blocked one. `in_block`: channels of a block of its input; 1: plain. False if the template does not support the
/// convolution.
bool pixels_pay(const Graph& graph, const Node& conv, int32_t in_block, const CpuLimits& limits);

}  // namespace kilter
