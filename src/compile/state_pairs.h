// The inputs of a network that are its state: each takes, in every run, the value that an output had in the run before.
// The caches of decoders and the state of recurrent networks are examples.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/open_graph.h"
#include "onnx/model.h"

namespace kilter {

/// By the name of an input, the output that is its next value.
using StatePairs = std::map<std::string, std::string>;

/// Returns the pairs that a network shows: outputs that append something to an input along an axis, and pairs with
/// names as exporters give them, such as past.0.key and present.0.key, h and hn. An input with several possible outputs
/// has no pair, nor has an output with several possible inputs. Only names of caches make pairs that state_mismatch()
/// refuses. `graph`: that of the model; null if there is none.
StatePairs find_state_pairs(const std::vector<onnx::Port>& inputs, const std::vector<onnx::Port>& outputs,
                            const OpenGraph* graph);

/// Returns the axis along which the output is the input and something else one after the other; nothing if it is not.
std::optional<int64_t> appended_axis(const OpenGraph& graph, const onnx::Port& input, const std::string& output);

/// Returns why the output cannot be the next value of the input; "" if the declarations allow it.
std::string state_mismatch(const onnx::Port& input, const onnx::Port& output);

}  // namespace kilter
