// Which opsets give an operator one and the same form.
#pragma once

#include "graph/graph.h"

namespace kilter::onnx {

/// Whether a node of ai.onnx made for its own opset means the same in a file of another `opset`: the same inputs,
/// outputs, attributes and defaults. Widened lists of element types do not count. Source: the operator change log of
/// ONNX 1.23; below opset 11, where negative axes became legal, only equal opsets agree.
bool same_form(const Node& node, int64_t opset);

}  // namespace kilter::onnx
