// Element-wise tasks between blocked and plain images. A row of pixels is contiguous on the plain side, and the
// channels of a block on the blocked side. If the task begins with a Relayout whose plain side has contiguous rows,
// tiles of pixels and channels are transposed in registers. Pixels of one word, a block of four bytes, are joined from
// vectors of pixels of each channel. Otherwise vectors run along one side and step through the
// other.
#pragma once

#include "schedule/emit.h"

namespace kilter {

/// `domain` must be blocked, and some operand with several channels must not be. `lanes`: lanes of a register.
void emit_layout_change(Emitter& e, const Domain& domain, int32_t lanes);

}  // namespace kilter
