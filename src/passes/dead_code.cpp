// Removes nodes whose results are not used.
//
//   %a = Relu(%x)                 %b = Exp(%x)
//   %b = Exp(%x)          =>      output %b
//   output %b

#include "passes/pass.h"

namespace kilter {

void dead_code(Graph& graph, PassContext& context) { context.rewrites_done += graph.remove_dead(); }

}  // namespace kilter
