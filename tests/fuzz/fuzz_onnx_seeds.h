// Small models that the importer's fuzz target starts from.
#pragma once

#include <string>

namespace kilter::onnx {

/// The bytes of one of several valid models, chosen by `seed`.
std::string seed_model(unsigned seed);

}  // namespace kilter::onnx
