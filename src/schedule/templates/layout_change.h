// Element-wise tasks between blocked and plain images. On the plain side, a row of pixels is contiguous; on the blocked
// side, the channels of a block are. If the task begins with a Relayout whose plain side has contiguous rows, tiles of
// pixels and channels are transposed in registers. If the block is a word of four bytes, it is joined from vectors of
// pixels of each channel. Otherwise vectors run along one side and step through the other.
#pragma once

#include "schedule/emit.h"

namespace kilter {

/// `domain` must be blocked, and some operand with several channels must not be. `lanes`: lanes of a register.
void emit_layout_change(Emitter& e, const Domain& domain, int32_t lanes);

}  // namespace kilter
