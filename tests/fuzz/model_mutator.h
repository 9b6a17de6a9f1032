// Changes of a model that keep it a readable file: what random bytes seldom reach.
#pragma once

#include <string>

namespace kilter::onnx {

/// One to four changes, chosen by `seed`, of the shapes, types, values, attributes, operators, edges and versions of
/// the model in `bytes`, or of its size by nodes of another model (see seed_model). Empty when `bytes` is no model.
std::string mutate_model(const std::string& bytes, unsigned seed);

}  // namespace kilter::onnx
