// Gives the results of a program memory of their own.
#pragma once

#include <cstddef>
#include <map>

#include "base/any_value.h"
#include "vm/program.h"

namespace kilter::vm {

/// A set of memory ranges.
class UsedMemory {
 public:
  /// Adds the memory of a tensor, or of the tensors in a sequence.
  void add(const AnyValue& value);
  /// Returns whether the tensor uses memory of the set.
  bool has(const Tensor& tensor) const;

 private:
  std::map<const std::byte*, const std::byte*> ranges_;  ///< first byte, end; they do not overlap
};

/// Returns the memory of the constants of a program's functions and segments.
UsedMemory constant_memory(const Program& program);

/// Copies the tensors that use memory of either set, and adds all of them to the second one.
void separate(AnyValue& value, const UsedMemory& fixed, UsedMemory& used);

}  // namespace kilter::vm
