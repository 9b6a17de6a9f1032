// The memory of outputs between runs.
#pragma once

#include <memory>

#include "base/tensor.h"

namespace kilter {

/// The memory of one output, which later runs use again once nobody else refers to it.
class OutputMemory {
 public:
  Tensor take(DType type, const Shape& shape);

 private:
  std::shared_ptr<std::byte> memory_;
};

}  // namespace kilter
