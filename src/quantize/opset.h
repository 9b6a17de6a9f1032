// Raising the opset of a model.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "quantize/document.h"

namespace kilter::quantize {

/// The rank of a value, as far as known.
using Ranks = std::function<std::optional<int64_t>(const std::string& value)>;

/// Raises the version of ai.onnx to `version` if it is lower. Nodes whose form changed get the new form: attributes
/// that became operands (axes, split), and Softmax over the last axis. `why` says what needs the version, and `instead`
/// what else the user can do. Throws unsupported, naming the node, if another node has a different form in `version`,
/// or if the model has functions.
void raise_opset(Document& document, int64_t version, const Ranks& ranks, const std::string& why,
                 const std::string& instead);

}  // namespace kilter::quantize
