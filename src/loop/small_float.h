// The types whose operations compute in f32.
#pragma once

#include "base/dtype.h"

namespace kilter {

/// Returns whether operations on the type compute in f32 and round each result.
constexpr bool is_small_float(DType type) { return type == DType::f16 || type == DType::bf16; }

}  // namespace kilter
