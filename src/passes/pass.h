// Graph passes: one file each, exporting one function. The driver in compile/ runs them from a table; it alone times,
// verifies, dumps and bisects.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "schedule/schedule.h"
#include "target/target.h"

namespace kilter {

/// A node that runs on its own next to a group that it could have joined: an element-wise one or a reduction
/// beside what makes its input, a depthwise convolution likewise, a factor a channel beside the convolution after it.
struct Unfused {
  enum Why : uint8_t {
    option,    ///< `--no-fuse`, `--schedule`, `--max-rewrites`
    form,      ///< no task takes in the operator or its types
    shape,     ///< it runs over other elements
    layout,    ///< it lies in another layout
    full,      ///< the group has as many nodes as a group may have
    order,     ///< it needs something that is made after the group
    schedule,  ///< no template takes the group with it
    cycles,    ///< by the model it gains nothing
  } why = option;
  std::string node, group;  ///< names: of the node, of the group's anchor
  std::string reason;       ///< in words, with what was expected and found
};

struct PassContext {
  TargetLimits limits;
  std::set<std::string> no_fuse;  ///< anchors whose groups take no further node in
  /// Depthwise convolutions that take in the convolution before them, model or not: by name, what asks for it, in words
  /// such as "--fuse conv2".
  std::map<std::string, std::string> fuse;
  std::set<std::string> apart;             ///< depthwise convolutions that do not
  std::map<std::string, std::string> own;  ///< nodes with a schedule or threads of their own: its template, or empty
  std::set<std::string> plain_layout;      ///< nodes whose operands stay plain
  std::vector<Forbidden> forbidden;        ///< templates that are not to be counted on
  std::vector<Unfused> unfused;            ///< what fusion left out, and why
  int64_t rewrites_left = INT64_MAX;       ///< `--max-rewrites`: passes ask take() before each rewrite
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
void fold_padding(Graph& graph, PassContext& context);
void split_recurrent(Graph& graph, PassContext& context);
void decompose(Graph& graph, PassContext& context);
void canonicalise(Graph& graph, PassContext& context);
void recognise_patterns(Graph& graph, PassContext& context);
void recognise_attention(Graph& graph, PassContext& context);
void signals_as_images(Graph& graph, PassContext& context);
void fold_batch_norm(Graph& graph, PassContext& context);
void volumes_as_images(Graph& graph, PassContext& context);
void choose_layouts(Graph& graph, PassContext& context);
void fuse(Graph& graph, PassContext& context);
/// Throws usage when a node of `context.fuse` cannot take in the convolution before it.
void fuse_depthwise(Graph& graph, PassContext& context);
void fuse_row_means(Graph& graph, PassContext& context);
void fuse_channel_scale(Graph& graph, PassContext& context);

}  // namespace kilter
