// Checks given names and shapes of inputs against the declarations of a model. Errors refer to it as `model`.
#pragma once

#include <string>
#include <vector>

#include "onnx/model.h"

namespace kilter::onnx {

/// Throws bad_input unless an input of this name exists. `defaults`: the inputs with default values.
void check_name(const std::string& name, const std::vector<Port>& inputs, const std::vector<Port>& defaults,
                const std::string& model);
/// Throws bad_input if a shape contradicts the declaration of its input.
void check_shape(const Port& port, const Shape& shape, const std::string& model);
/// Both for all shapes.
void check_shapes(const Model::Shapes& shapes, const std::vector<Port>& inputs, const std::vector<Port>& defaults,
                  const std::string& model);

}  // namespace kilter::onnx
