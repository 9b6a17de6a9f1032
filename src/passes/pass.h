// Graph passes: one file each, exporting one function. The driver in compile/ runs them from a table; only the driver
// times, verifies, dumps and bisects.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "passes/precision.h"
#include "schedule/schedule.h"
#include "target/target.h"

namespace kilter {

/// A node that runs on its own although it could have joined a group: an element-wise node, reduction or depthwise
/// convolution that could join the group that computes its input, or a per-channel factor that could join the
/// convolution that follows it.
struct Unfused {
  enum Why : uint8_t {
    option,    ///< a command-line option: `--no-fuse`, `--schedule`, `--max-rewrites`
    form,      ///< no task supports the operator or its element types
    shape,     ///< it runs over different elements
    layout,    ///< its layout differs
    full,      ///< the group already has as many nodes as a group may have
    order,     ///< it needs something that is computed after the group
    schedule,  ///< no template applies to the group once it has joined
    cycles,    ///< the model predicts no gain
  } why = option;
  std::string node, group;  ///< the name of the node, and of the group's anchor
  std::string reason;       ///< a description, with what was expected and found
};

/// A rewrite of single nodes: a row of a pass's table. `--disable PASS.NAME` leaves it out.
struct Rewrite {
  std::string_view name;
  std::string_view equation;               ///< the pattern and its replacement
  std::vector<std::string_view> ops = {};  ///< ONNX operators at the pattern's root; empty: any
};

/// The name of a rewrite in options and counts: "canonicalise.gemm".
inline std::string full_name(std::string_view pass, std::string_view rewrite) {
  return std::string(pass) + "." + std::string(rewrite);
}

class ConstantMemo;
class TriedRewrites;

struct PassContext {
  CpuLimits limits;
  Precision precision = Precision::declared;
  /// Inputs and outputs of the network that are stored in a different type, as `precision` stores the values between
  /// layers, or as u8.
  std::map<std::string, Layout> stored_ports;
  std::set<std::string> keep_float;  ///< names of nodes whose operands and results stay in f32
  std::set<std::string> no_fuse;     ///< anchors whose groups absorb no further nodes
  /// Depthwise convolutions that must include the convolution before them, whatever the analytic model predicts. Maps
  /// each name to a description of what requests it, such as "--fuse conv2".
  std::map<std::string, std::string> fuse;
  std::set<std::string> apart;             ///< depthwise convolutions that must not include the convolution before them
  std::map<std::string, std::string> own;  ///< nodes with a forced schedule or thread count: the template's name, or ""
  std::set<std::string> plain_layout;      ///< nodes whose operands stay plain
  std::vector<Forbidden> forbidden;        ///< templates that passes must not rely on
  std::vector<Unfused> unfused;            ///< what fusion left out, and why
  int64_t rewrites_left = INT64_MAX;       ///< `--max-rewrites`: passes call take() before each rewrite
  int64_t rewrites_done = 0;
  std::set<std::string> disabled;          ///< full names of rewrites that must not run
  std::map<std::string, int64_t> applied;  ///< by full name: times that a rewrite was applied
  TriedRewrites* tried = nullptr;          ///< null: outcomes are not noted
  ConstantMemo* memo = nullptr;            ///< of the network; may be null

  /// Returns whether one more rewrite is allowed, and counts it.
  bool take() {
    if (rewrites_left <= 0) return false;
    --rewrites_left;
    ++rewrites_done;
    return true;
  }
  /// Undoes take() for a rewrite that did not apply.
  void put_back() {
    ++rewrites_left;
    --rewrites_done;
  }
};

using PassFunction = void (*)(Graph&, PassContext&);

// The tables of the passes that are tables of rewrites, in the order in which rows are tried.
std::vector<Rewrite> simplify_rewrites();
std::vector<Rewrite> padding_rewrites();
std::vector<Rewrite> decompose_rewrites();
std::vector<Rewrite> canonicalise_rewrites();
std::vector<Rewrite> pattern_rewrites();
std::vector<Rewrite> attention_rewrites();
std::vector<Rewrite> batch_norm_rewrites();

// The functions of the passes. fuse_depthwise() throws usage if a node of PassContext::fuse cannot include the
// convolution before it.
#define KILTER_PASS(name, function, summary, why_here, rewrites) void function(Graph& graph, PassContext& context);
#include "passes/passes.inc"
#undef KILTER_PASS

}  // namespace kilter
