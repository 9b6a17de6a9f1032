// Checks the shapes and values that a caller gives against the model's declarations.
#pragma once

#include <vector>

#include "onnx/model_data.h"

namespace kilter::onnx {

struct BoundInput {
  const Port* port = nullptr;
  Shape shape;
  const Tensor* value = nullptr;  ///< the input is this constant
};

/// Returns every input of the model with its shape, then the inputs with an initializer that the caller overrides.
/// Throws bad_input for unknown names, contradictions and dimensions without a size, all of them in one error.
std::vector<BoundInput> bind_inputs(const ModelData& model, const Model::Shapes& shapes, const Model::Values& values);

}  // namespace kilter::onnx
