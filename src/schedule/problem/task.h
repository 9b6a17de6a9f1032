// A task is one fused group of nodes: an anchor with element-wise nodes before and after it, and in some cases the
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

/// Whether the strides are row-major without gaps. Dimensions of extent 1 may have any stride.
bool is_dense(const Shape& shape, const Shape& strides);

/// A value as a task sees it in memory: neighbours along physical dimension d are strides[d] elements apart. A value
/// stored inside another buffer (a concatenated part, a view) has the strides of the whole buffer.
struct Operand {
  ValueId value = kNone;
  TensorType type;
  Physical phys;
  const Tensor* constant = nullptr;  ///< dense data of a constant (type.layout says how it must be laid out)
};

struct Task {
  const Graph* graph = nullptr;
  NodeId anchor = kNone;
  /// A convolution whose result only the anchor reads, followed by the element-wise nodes on the way to the anchor.
  /// Their results are not operands. Empty for most tasks.
  std::vector<NodeId> feeder;
  std::vector<NodeId> prologue;  ///< element-wise nodes before the anchor, in order
  std::vector<NodeId> epilogue;  ///< element-wise nodes after the anchor, in order
  std::vector<Operand> inputs;   ///< values read from outside, without duplicates
  std::vector<Operand> outputs;  ///< values that nodes outside read or that are outputs of the network
  /// Whether the layer will run with other shapes, too. The structure of kernels then depends less on extents, so that
  /// several shapes can share them: the last tile overlaps the one before it.
  bool open = false;

  const Node& node() const { return graph->node(anchor); }
  const Operand* find(ValueId value) const;
  /// The operand of a value that the task reads or writes. Internal error for any other value.
  const Operand& operand(ValueId value) const;
  /// The operators in order, such as "Conv+Add+Relu".
  std::string ops() const;
  /// The task in one line: mathematics, shapes and types, but no names, layouts or target.
  std::string problem() const;
  /// Layouts of inputs and outputs in order, with strides if they are not dense, such as "c16 plain -> c16". Part of
  /// the kernel key.
  std::string layouts() const;
  /// Types and shapes, in the same order as layouts(), such as "f32[1,64,56,56] f32[64,64,3,3] -> f32[1,64,56,56]".
  std::string shapes() const;
  int64_t flops() const;
  /// Bytes of inputs and outputs, each counted once. Data from which an anchor selects (Gather, Slice, TakeChannels)
  /// count for at most as many bytes as the task writes.
  int64_t bytes() const;
};

/// Rejects a task of a kind that a template does not support. `check` names the property that distinguishes the kinds;
/// `limit` is its value for the template's kind.
inline Rejected not_for(std::string check, std::string limit, std::string_view got) {
  return {std::move(check), std::move(limit), std::string(got), true};
}

}  // namespace kilter
