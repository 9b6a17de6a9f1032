// What a kernel asks of one core, counted from its loops: for the models of templates that have no formula of their
// own.
#pragma once

#include "loop/loop.h"
#include "target/target.h"

namespace kilter {

/// Of one run of a kernel, all parallel items on one core. Instructions of vectors count once for each register that
/// the target needs for them, and loops that are to be vectorised as vectors. Addresses are free.
struct LoopCount {
  double loads = 0;   ///< of registers; of single elements where they do not lie together
  double stores = 0;  ///< likewise
  double multiply_adds = 0;
  double others = 0;   ///< other arithmetic; an elementary function counts as what it expands to
  double scalars = 0;  ///< of integers, loops and branches among them
  double bytes = 0;    ///< read and written, scratch too
  double written = 0;  ///< elements of outputs, with lanes that nobody reads
  double waits = 0;    ///< cycles that the units are idle, as steps of a reduction wait for the one before
  double cycles = 0;   ///< with all data in L1, `waits` among them
  int64_t items = 0;   ///< parallel iterations

  double instructions() const { return loads + stores + multiply_adds + others + scalars; }
};

/// Extents that depend on outer loops are taken in the middle of these. A branch on an index that is less than a
/// constant is taken as often as that is so, any other one half of the times where it has two sides, else always.
LoopCount count_loops(const LoopFunc& func, const TargetLimits& limits);

/// Vector instructions that an operation of f32 or f64 takes: those that it expands to, of a division or a square root
/// as many as would take as long.
double operation_cost(Op op, DType type);

}  // namespace kilter
