// Codes of element types in attributes (ONNX TensorProto.DataType).
#pragma once

#include <cstdint>
#include <optional>

#include "base/dtype.h"

namespace kilter {

/// Returns the element type of a code, or nullopt for codes without a type in Kilter.
std::optional<DType> dtype_of_code(int64_t code);
int64_t code_of_dtype(DType type);

}  // namespace kilter
