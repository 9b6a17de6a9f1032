// Graph passes: one file each, exporting one function. The driver in compile/ runs them from a table; it alone times,
// verifies, dumps and bisects.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "graph/graph.h"
#include "loop/target.h"

namespace kilter {

struct PassContext {
  TargetLimits limits;
  int64_t rewrites_left = INT64_MAX;  ///< `--max-rewrites`: passes ask take() before each rewrite
  int64_t rewrites_done = 0;

  /// Whether one more rewrite may be made; counts it.
  bool take() {
    if (rewrites_left <= 0) return false;
    --rewrites_left;
    ++rewrites_done;
    return true;
  }
};

using PassFunction = void (*)(Graph&, PassContext&);

// In the order of the pipeline (compile/pipeline.cpp says why each stands where it does).
void simplify(Graph& graph, PassContext& context);
void fold_constants(Graph& graph, PassContext& context);
void common_subexpressions(Graph& graph, PassContext& context);
void dead_code(Graph& graph, PassContext& context);
void canonicalise(Graph& graph, PassContext& context);
void recognise_patterns(Graph& graph, PassContext& context);
void recognise_attention(Graph& graph, PassContext& context);
void fold_batch_norm(Graph& graph, PassContext& context);
void choose_layouts(Graph& graph, PassContext& context);
void fuse(Graph& graph, PassContext& context);

}  // namespace kilter
