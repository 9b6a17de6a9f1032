// The invariants of a plan. They are checked before a plan runs, and before the loader returns one.
#pragma once

#include <cstdint>
#include <optional>

#include "base/error.h"
#include "exec/plan.h"

namespace kilter {

/// Throws an error of `kind` that describes the first broken invariant: its name, the step, the expected and the actual
/// value. A plan that passes can be set up without reading or writing outside its buffers; its machine code itself is
/// not checked. Every buffer of a step, with its size `bytes`, lies inside its space. Halo and copy steps stay inside
/// and write neither inputs nor constants.
void check_plan(const Plan& plan, ErrorKind kind);

/// Returns the bytes of a dense tensor. Returns nothing when a dimension is negative, there are more than 2^40
/// elements, or the type is string.
std::optional<int64_t> tensor_bytes(DType type, const Shape& shape);

}  // namespace kilter
