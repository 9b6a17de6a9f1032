// Attributes that name an element type.
#pragma once

#include <string_view>

#include "ops/op.h"
#include "ops/support/onnx_dtype.h"

namespace kilter {

/// The element type that attribute `key` names, or `fallback` when it is absent or 0 (undefined). unsupported for a
/// type that Kilter does not carry.
DType dtype_attr(const Node& node, std::string_view key, DType fallback);

}  // namespace kilter
