// A task is one fused group of nodes: an anchor with element-wise nodes before and after it, and at times the
// convolution that feeds it. Templates lower tasks.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "ops/op.h"

namespace kilter {

/// Row-major without gaps; dimensions of extent 1 may have any stride.
bool is_dense(const Shape& shape, const Shape& strides);

/// A value as a task sees it in memory: element i of physical dimension d lies strides[d] elements further. For values
/// stored inside another buffer (concat in place, views) strides are those of the whole buffer.
struct Operand {
  ValueId value = kNone;
  TensorType type;
  Physical phys;
  const Tensor* constant = nullptr;  ///< dense data of a constant (type.layout says how it is to lie in memory)
};

struct Task {
  const Graph* graph = nullptr;
  NodeId anchor = kNone;
  /// A convolution whose result the anchor alone reads, and the element-wise nodes on the way to the anchor, in order:
  /// what they make is no operand. Empty for most tasks.
  std::vector<NodeId> feeder;
  std::vector<NodeId> prologue;  ///< element-wise nodes before the anchor, in order
  std::vector<NodeId> epilogue;  ///< element-wise nodes after the anchor, in order
  std::vector<Operand> inputs;   ///< values read from outside, each once
  std::vector<Operand> outputs;  ///< values that nodes outside read, or outputs of the network

  const Node& node() const { return graph->node(anchor); }
  const Operand* find(ValueId value) const;
  /// The operand of a value that the task reads or writes; internal error when it is neither.
  const Operand& operand(ValueId value) const;
  /// Operators in order, "Conv+Add+Relu".
  std::string ops() const;
  /// The task in one line: mathematics, shapes and types; no names, no layouts, no target.
  std::string problem() const;
  /// Layouts of inputs and outputs in order, with strides where they are not dense, "c16 plain -> c16": part of the
  /// kernel key.
  std::string layouts() const;
  /// Types and shapes of inputs and outputs in the same order, "f32[1,64,56,56] f32[64,64,3,3] -> f32[1,64,56,56]".
  std::string shapes() const;
  int64_t flops() const;
  /// Bytes of inputs and outputs, each counted once; of all that an anchor selects from (Gather, Slice, TakeChannels)
  /// no more than it writes.
  int64_t bytes() const;
};

/// A template's answer to a task of a kind that it is not for: `check` is what tells the kinds apart, `limit` the kind
/// that the template is for.
inline Rejected not_for(std::string check, std::string limit, std::string_view got) {
  return {std::move(check), std::move(limit), std::string(got), true};
}

}  // namespace kilter
