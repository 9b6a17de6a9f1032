// The attributes of a reference step as a runtime kernel reads them.
#pragma once

#include <optional>
#include <string_view>

#include "exec/kernels/kernel.h"

namespace kilter {

/// Reads ReferenceCall::attrs: {"axis": ["int", 1], "mode": ["string", "avg"], ...}. Returns nullopt if it has anything
/// other than integers, floats, lists of these, and strings of ASCII characters without escapes: no runtime kernel
/// needs more.
std::optional<KernelAttrs> read_attributes(std::string_view json);

}  // namespace kilter
