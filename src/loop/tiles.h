// The rules of tile registers, for verify().
#pragma once

#include "loop/loop.h"

namespace kilter {

/// Throws internal with the first rule of tile registers that the function breaks: shapes, types, scopes, and the
/// places of their statements. access.cpp checks the bounds of their loads and stores.
void check_tiles(const LoopFunc& func);

}  // namespace kilter
