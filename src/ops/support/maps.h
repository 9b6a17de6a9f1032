// Shared by the operators on maps.
#pragma once

#include "base/map_value.h"
#include "ops/op.h"
#include "ops/support/iterate.h"

namespace kilter {

/// Returns input 0 as a map. Throws bad_model if it is not a map, or if its keys have a different type.
const AnyValue& map_operand(const RunContext& ctx, DType key);

}  // namespace kilter
