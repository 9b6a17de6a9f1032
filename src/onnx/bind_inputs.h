// The shapes and values that a caller gives, against what the model declares.
#pragma once

#include <vector>

#include "onnx/model_data.h"

namespace kilter::onnx {

struct BoundInput {
  const Port* port = nullptr;
  Shape shape;
  const Tensor* value = nullptr;  ///< the input is this constant
};

/// Every input of the model with its shape, then those with an initializer that the caller feeds. Throws bad_input for
/// unknown names, contradictions and dimensions that nobody gives, all of them at once.
std::vector<BoundInput> bind_inputs(const ModelData& model, const Model::Shapes& shapes, const Model::Values& values);

}  // namespace kilter::onnx
