// A first stage that widens an operand stored as bytes, for kernels that multiply words. Each element is then converted
// once, instead of once for every tile that reads it.
#pragma once

#include "schedule/emit.h"
#include "schedule/model/register_tile.h"

namespace kilter {

/// Adds the stage to `lowered`, whose first temporary it fills: the whole buffer of `value` as i16, so that positions
/// in it stay the same.
void widen_first(const Task& task, ValueId value, const CpuLimits& limits, Lowered& lowered);
/// The temporary, in the kernel `e` that reads it.
Buf widened_operand(Emitter& e, ValueId value, bool write = false);
/// Cycles of the stage.
double widening_cycles(const Task& task, ValueId value, const CpuLimits& limits);

}  // namespace kilter
