// The budget for evaluating constants at compile time. A file of a few bytes can ask for gigabytes or hours of
// evaluation. Nodes that exceed the budget stay in the graph and are computed when the network runs.
#pragma once

#include <cstdint>

#include "ops/op.h"

namespace kilter {

/// The budget that is left for folding in one model.
struct FoldBudget {
  int64_t bytes = int64_t{256} << 20;  ///< memory that results may still occupy
  int64_t work = int64_t{2} << 30;     ///< basic operations left for reference kernels: about ten seconds

  /// Deducts the cost of evaluating a node. Returns false, deducting nothing, if that exceeds the budget that is left.
  bool take(const OpView& node);
};

/// Estimates the number of basic operations of a reference kernel: OpDef::flops if there is one, otherwise the elements
/// read and written. For families that may read every element for every result, returns the product of elements read
/// and written.
int64_t fold_work(const OpView& node);

}  // namespace kilter
