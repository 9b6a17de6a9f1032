// Checks of the loops that are bound to blocks and threads, and of the memory spaces. Part of the verifier.
#pragma once

#include "loop/loop.h"

namespace kilter {

/// Throws internal unless bound loops form one nest around all statements other than lets, and every buffer is in a
/// space that its kind and the nest allow. The verifier's other checks find bound loops in other places.
void check_bindings(const LoopFunc& func);

}  // namespace kilter
