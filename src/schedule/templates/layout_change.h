// Element-wise tasks between blocked and plain images. A row of pixels is contiguous on the plain side, the channels of
// a block on the blocked one: tiles of pixels and channels are transposed in registers where the task begins with a
// Relayout whose plain side has contiguous rows; else vectors run along one side and step through the other.
#pragma once

#include "schedule/emit.h"

namespace kilter {

/// `domain` is blocked, and some operand with several channels is not; `lanes` are those of a register.
void emit_layout_change(Emitter& e, const Domain& domain, int32_t lanes);

}  // namespace kilter
