// Adds copies between layouts as nodes.
#pragma once

#include <string_view>

#include "graph/graph.h"

namespace kilter {

/// Adds a Relayout that copies `from` into `layout`, named after the value and `why` ("x.relayout"). Returns its
/// output; its node is in no group.
ValueId add_relayout(Graph& graph, ValueId from, const Layout& layout, std::string_view why);

}  // namespace kilter
