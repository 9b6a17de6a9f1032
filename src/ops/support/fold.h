// What evaluating constants while compiling may cost. A file of a few bytes can ask for gigabytes or hours of it; what
// is over the budget stays in the graph and is computed when the network runs.
#pragma once

#include <cstdint>

#include "ops/op.h"

namespace kilter {

/// Of all that one model folds.
struct FoldBudget {
  int64_t bytes = int64_t{256} << 20;  ///< results may still have
  int64_t work = int64_t{2} << 30;     ///< basic operations of reference kernels may still take: some ten seconds

  /// Takes what a node's evaluation costs; false, and nothing taken, where that is more than is left.
  bool take(const OpView& node);
};

/// About how many basic operations a reference kernel takes: by OpDef::flops, else elements read and written, for
/// families that may read each element for each result their product.
int64_t fold_work(const OpView& node);

}  // namespace kilter
