// Creates the open graph of a model: resolves names, expands the calls of the model's functions, and turns initializers
// and Constant nodes into constants.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "graph/open_graph.h"
#include "onnx/model_data.h"

namespace kilter::onnx {

/// Returns the model's graph. `inputs` of the result are those of the model's graph, including those with an
/// initializer, whose values have it as their constant unless `given` names them. Throws bad_model for calls and
/// attributes that do not fit.
std::shared_ptr<const OpenGraph> lower(const ModelData& model, const std::set<std::string>& given = {});

}  // namespace kilter::onnx
