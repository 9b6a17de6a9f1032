// Which graph inputs a value is computed from.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace kilter::onnx {

struct DataNeed {
  std::vector<ValueId> inputs;  ///< graph inputs that the value derives from
  bool known_by_inputs = true;  ///< every one is small enough to compile a plan per value: see kMostElems
  std::string obstacle;         ///< otherwise: why not
};

/// Inputs of integers and booleans may have this many elements, of floats kMostFloatElems, to specialise on values.
constexpr int64_t kMostElems = 1024;
constexpr int64_t kMostFloatElems = 64;

/// Follows the producers of a value back to graph inputs.
DataNeed trace_need(const Graph& graph, ValueId value);

}  // namespace kilter::onnx
