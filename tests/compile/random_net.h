// Random networks of all kinds of nodes, mostly of the kinds that passes look for: nodes that do nothing, chains of
// movements, equal nodes, constant arithmetic, values with several readers, values that nobody reads.
#pragma once

#include "draw.h"

namespace kilter {

/// Adds up to `nodes` nodes and one to three outputs. Values stay moderate, and no result depends on rounding.
void draw_nodes(SweepNet& net, int64_t nodes);

}  // namespace kilter
