// The storage of every value: its buffer, offset and strides. Reshapes, slices, transposes and runs of channel blocks
// become views of their source. Parts of a concatenation, and the source of a transpose, are written directly to the
// place where their user needs them.
#pragma once

#include <set>
#include <vector>

#include "graph/graph.h"

namespace kilter {

struct Storage {
  ValueId root = kNone;      ///< the value that owns the buffer; the value itself unless it is stored inside another
  int64_t offset_elems = 0;  ///< from the root buffer's start to this value's, without its physical offset
  Physical phys;  ///< strides and offset as templates see them; elems: from this value's start to the buffer's end
};

struct StorageMap {
  std::vector<Storage> values;  ///< by ValueId
  std::set<NodeId> views;       ///< nodes that do nothing at run time
  const Storage& of(ValueId v) const { return values.at(static_cast<size_t>(v)); }
};

/// Decides the storage of every live value. Inserts Relayout nodes (each a group of its own) where a copy is
/// unavoidable. The nodes in `dense` (those that run their reference kernel, and others) read and write dense tensors
/// only.
StorageMap place(Graph& graph, const std::set<NodeId>& dense);

}  // namespace kilter
