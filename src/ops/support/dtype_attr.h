// Attributes that name an element type.
#pragma once

#include <string_view>

#include "ops/op.h"
#include "ops/support/onnx_dtype.h"

namespace kilter {

/// Returns the element type that attribute `key` names, or `fallback` if it is absent or 0 (undefined). Throws
/// unsupported for a type that Kilter does not have.
DType dtype_attr(const Node& node, std::string_view key, DType fallback);

}  // namespace kilter
