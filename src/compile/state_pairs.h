// The inputs of a network that are its state: in every run, each takes the value that an output had in the previous
// run. The caches of decoders and the state of recurrent networks are examples.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/open_graph.h"
#include "onnx/model.h"

namespace kilter {

/// For each input, by name, the output that is its next value.
using StatePairs = std::map<std::string, std::string>;

/// Returns the pairs that can be recognised: outputs that append something to an input along an axis, and pairs with
/// names as exporters give them, such as past.0.key and present.0.key, h and hn. An input with several possible outputs
/// has no pair, and neither has an output with several possible inputs. A pair that state_mismatch() refuses is
/// returned only if its names are those of a cache. `graph`: that of the model; null if there is none.
StatePairs find_state_pairs(const std::vector<onnx::Port>& inputs, const std::vector<onnx::Port>& outputs,
                            const OpenGraph* graph);

/// Returns the axis along which the output is a concatenation of the input and something else; nothing if it is not
/// one.
std::optional<int64_t> appended_axis(const OpenGraph& graph, const onnx::Port& input, const std::string& output);

/// Returns why the output cannot be the next value of the input; "" if the declarations allow it.
std::string state_mismatch(const onnx::Port& input, const onnx::Port& output);

}  // namespace kilter
