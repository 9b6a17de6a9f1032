// The operands and attributes of TreeSums.
#pragma once

#include "ops/support/packed_trees.h"

namespace kilter {

/// `targets` is present if each leaf has one value, otherwise `rows`.
enum TreeSumsInput : size_t { kTreeX, kTreeRecords, kTreeDepths, kTreeInitial, kTreeTargets, kTreeRows };

/// A TreeSums node. Its forest is described in packed_trees.h.
struct TreeSumsShape {
  TreeColumns columns;
  int64_t feature_bits = 0;
  int64_t rows = 0;  ///< of x
  int64_t trees = 0;
  int64_t depth = 0;  ///< no tree is deeper
  int64_t targets = 0;
  TreeAggregate aggregate = TreeAggregate::sum;  ///< not average
};
TreeSumsShape tree_sums_shape(const Node& node, const Shape& x, const Shape& depths, const Shape& initial);

/// Returns input 0 as rows for tree_scores(): f64 as it is, other types as f32.
ValueId tree_features(ExpandContext& ctx);

/// Adds nodes that compute the scores [n, targets] of x [n, features] in the type of x, base values included but before
/// the transform; targets without leaves count as 0. Returns nullopt if the kernel cannot compute the forest.
std::optional<ValueId> tree_scores(ExpandContext& ctx, const TreeEnsemble& trees, ValueId x);

}  // namespace kilter
