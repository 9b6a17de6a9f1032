// The memory of outputs between runs.
#pragma once

#include <memory>

#include "base/tensor.h"
#include "exec/memory.h"

namespace kilter {

/// The memory of one output, which later runs reuse once nothing else refers to it.
class OutputMemory {
 public:
  /// `from`: where new memory comes from; null: the heap.
  Tensor take(DType type, const Shape& shape, const Allocator* from = nullptr);

 private:
  std::shared_ptr<std::byte> memory_;
};

}  // namespace kilter
