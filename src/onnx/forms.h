// Finds whether two opsets give an operator the same form.
#pragma once

#include "graph/graph.h"

namespace kilter::onnx {

/// Returns whether a node of ai.onnx that was created for its own opset means the same in a file of `opset`: the same
/// inputs, outputs, attributes and defaults. Wider lists of element types do not count as a difference. Source: the
/// operator change log of ONNX 1.23. Below opset 11, where negative axes became legal, only equal opsets agree.
bool same_form(const Node& node, int64_t opset);

}  // namespace kilter::onnx
