// Shared by the passes that choose how values are stored.
#pragma once

#include <numeric>
#include <vector>

#include "graph/op_def.h"

namespace kilter {

/// Classes of values that must be stored alike, because they are views of one another.
class StoredAlike {
 public:
  explicit StoredAlike(size_t values) : parents_(values), wide_(values) {
    std::iota(parents_.begin(), parents_.end(), 0);
  }

  /// The value that stands for the class of `v`.
  ValueId root(ValueId v) {
    while (parents_[static_cast<size_t>(v)] != v) {
      ValueId& parent = parents_[static_cast<size_t>(v)];
      parent = parents_[static_cast<size_t>(parent)];
      v = parent;
    }
    return v;
  }
  void join(ValueId a, ValueId b) {
    a = root(a), b = root(b);
    parents_[static_cast<size_t>(b)] = a;
    if (wide_[static_cast<size_t>(b)]) wide_[static_cast<size_t>(a)] = true;
  }
  /// Keeps the class of `v` in f32.
  void keep_wide(ValueId v) { wide_[static_cast<size_t>(root(v))] = true; }
  bool wide(ValueId v) { return wide_[static_cast<size_t>(root(v))]; }

 private:
  std::vector<ValueId> parents_;  ///< by value: its parent in the tree of its class
  std::vector<bool> wide_;        ///< by root
};

/// Whether kernels of the family read and write values that are stored in a different type. Reference kernels do not; a
/// recurrence rounds its state in every step.
inline bool converts_elements(Family family) {
  return family != Family::reference && family != Family::recurrent && family != Family::gemm;
}

}  // namespace kilter
