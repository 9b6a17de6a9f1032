// Forests as the kernel of TreeSums reads them. Every condition is x <= threshold; all other conditions are expressed
// by such nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/support/tree_ensemble.h"

namespace kilter {

/// The columns of the rows that records refer to: the features as they are, then the features with -inf for NaN, so
/// that every condition is true, and finally one column that is -inf.
struct TreeColumns {
  int64_t features = 0;
  bool raw = false;
  bool cleaned = false;

  int64_t width() const { return (raw ? features : 0) + (cleaned ? features : 0) + 1; }
  int64_t first_cleaned() const { return raw ? features : 0; }
};

/// A record is two words, u32 for thresholds of f32 and u64 for f64: the threshold's bits; and the index of the left
/// child times 2^feature_bits, plus the column. The right child follows the left one. The first records are the roots.
/// A leaf reads the last column and is its own left child, so that a walk stays there; instead of a threshold it has
/// its value, or the index of its row in `rows`.
struct PackedTrees {
  TreeColumns columns;
  int64_t feature_bits = 0;
  int64_t depth = 0;              ///< of the deepest tree: conditions from its root to a leaf
  std::vector<uint64_t> records;  ///< two words each, also if they fit in u32
  std::vector<int32_t> depths;    ///< by tree
  std::vector<int32_t> targets;   ///< by tree: the target of all its leaves; empty if leaves refer to `rows`
  std::vector<double> rows;       ///< one value for each target
};

/// Packs a forest for features of f32 or, if `wide`, of f64. Nullopt if the kernel cannot compute it: minima or maxima
/// of leaves that do not all have one value of the only target, or too many nodes.
std::optional<PackedTrees> pack_trees(const TreeEnsemble& trees, int64_t features, bool wide);

}  // namespace kilter
