// Small models that the importer's fuzz target starts from.
#pragma once

#include <string>

namespace kilter::onnx {

/// The bytes of a valid model chosen by `seed`: one of a few written by hand, or a single node from a test case of any
/// operator.
std::string seed_model(unsigned seed);

}  // namespace kilter::onnx
