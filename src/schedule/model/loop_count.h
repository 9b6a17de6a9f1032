// The demands of a kernel on one core, counted from its loops. Used by the models of templates that have no formula of
// their own.
#pragma once

#include "loop/loop.h"
#include "target/target.h"

namespace kilter {

/// Counts for one run of a kernel, with all parallel items on one core. A vector instruction counts once for each
/// register that the target needs for it, and loops that will be vectorised count as vectors. Computing addresses costs
/// nothing.
struct LoopCount {
  double loads = 0;   ///< of registers, or of single elements if they are not contiguous
  double stores = 0;  ///< of registers, or of single elements if they are not contiguous
  double multiply_adds = 0;
  double others = 0;   ///< other arithmetic; an elementary function counts as the instructions it expands to
  double scalars = 0;  ///< integer instructions, including loops and branches
  double bytes = 0;    ///< read and written, including scratch
  double written = 0;  ///< elements of outputs, including unused lanes
  double waits = 0;    ///< cycles in which the units idle because a reduction step waits for the previous one
  double cycles = 0;   ///< with all data in L1; includes `waits`
  int64_t items = 0;   ///< parallel iterations

  double instructions() const { return loads + stores + multiply_adds + others + scalars; }
};

/// Extents that depend on outer loops are evaluated at the middle of those loops. A branch on whether an index is below
/// a constant counts as often as the condition is true. Any other branch counts half of the time if it has two sides,
/// and otherwise always.
LoopCount count_loops(const LoopFunc& func, const CpuLimits& limits);

/// Vector instructions that an operation on f32 or f64 expands to. A division or square root counts as the number of
/// instructions that take as long as it does.
double operation_cost(Op op, DType type, const CpuLimits& limits);

}  // namespace kilter
