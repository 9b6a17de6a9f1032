// Checks of the types and shapes that callers of the C interface give.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/tensor.h"
#include "kilter/runtime.h"

namespace kilter::c_abi {

/// Throws usage if a type is not one of numbers. `function` is named in the error.
DType number_type(kilter_dtype dtype, const char* function);
/// Throws usage for a rank or a dimension that no tensor can have.
Shape shape_of(size_t rank, const int64_t* dims);

}  // namespace kilter::c_abi
