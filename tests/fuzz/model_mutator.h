// Mutations of a model that keep the file parsable, which random bytes seldom achieve.
#pragma once

#include <string>

namespace kilter::onnx {

/// Makes one to four changes, chosen by `seed`, to the shapes, types, values, attributes, operators, edges and versions
/// of the model in `bytes`, or adds nodes of another model (see seed_model). Returns nothing if `bytes` is not a model.
std::string mutate_model(const std::string& bytes, unsigned seed);

}  // namespace kilter::onnx
