// Where every value lives: which buffer, at which offset, with which strides. Reshapes, slices and transposes become
// views of their source, as do runs of blocks of channels; parts of a concatenation and sources of an output transpose
// are written in place of their user.
#pragma once

#include <set>
#include <vector>

#include "graph/graph.h"

namespace kilter {

struct Storage {
  ValueId root = kNone;  ///< the value that owns the buffer; itself when it is not stored inside another
  int64_t offset_elems =
      0;          ///< from the root buffer's start to this value's buffer start (physical offset not included)
  Physical phys;  ///< strides and offset as templates see them; elems: from its start to the buffer's end
};

struct StorageMap {
  std::vector<Storage> values;  ///< by ValueId
  std::set<NodeId> views;       ///< nodes that do nothing at run time
  const Storage& of(ValueId v) const { return values.at(static_cast<size_t>(v)); }
};

/// Decides storage for every live value. Inserts Relayout nodes (each a group of its own) where a copy is unavoidable.
/// The nodes of `dense` (those that run their reference kernel, and others) read and write dense tensors only.
StorageMap place(Graph& graph, const std::set<NodeId>& dense);

}  // namespace kilter
