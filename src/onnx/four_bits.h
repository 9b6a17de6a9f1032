// Tensors of 4-bit integers. Kilter holds them as i8 and u8, whose elements have the same values, and allows only nodes
// for which the narrower type makes no difference.
#pragma once

#include <set>
#include <span>
#include <string>

#include "graph/graph.h"
#include "onnx/schema.h"

namespace kilter::onnx {

/// Returns whether a TensorProto.data_type is int4 or uint4.
bool is_four_bits(int32_t number);

/// Returns the elements of a tensor of 4-bit integers, which lie two in a byte, the first in the lower half. `bytes`
/// has (elems(shape) + 1) / 2 bytes.
Tensor unpack_four_bits(std::span<const std::byte> bytes, DType type, Shape shape);

/// The values of a graph that are 4-bit integers.
class FourBitValues {
 public:
  void add(ValueId value) { values_.insert(value); }

  /// Throws unsupported if a node of the operator `op` (null if unknown) reads a 4-bit value and its results could
  /// depend on the type. Returns whether its results are 4-bit integers. `file` is named in errors.
  bool check(const pb::NodeProto& node, const OpDef* op, std::span<const ValueId> inputs,
             const std::string& file) const;

 private:
  bool contains(ValueId value) const { return values_.contains(value); }
  std::set<ValueId> values_;
};

}  // namespace kilter::onnx
