// Codes of element types in attributes (ONNX TensorProto.DataType).
#pragma once

#include <cstdint>
#include <optional>

#include "base/dtype.h"

namespace kilter {

/// The element type of a code; nullopt for codes that Kilter has no type for.
std::optional<DType> dtype_of_code(int64_t code);
int64_t code_of_dtype(DType type);

}  // namespace kilter
