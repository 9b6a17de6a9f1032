// Small models that the importer's fuzz target starts from.
#pragma once

#include <string>

namespace kilter::onnx {

/// The bytes of a valid model chosen by `seed`: one of a few by hand, or one node of any operator from a test case of
/// it.
std::string seed_model(unsigned seed);

}  // namespace kilter::onnx
