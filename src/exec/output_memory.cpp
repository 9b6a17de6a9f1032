#include "exec/output_memory.h"

#include <memory>

namespace kilter {

/// Returns the memory of the previous run if nothing refers to it any more, and otherwise new memory.
Tensor OutputMemory::take(DType type, const Shape& shape, const Allocator* from) {
  if (memory_.use_count() == 1) {
    // The previous holder may have read the bytes in another thread before releasing them. Releasing a reference here
    // orders these reads before the next writes; ThreadSanitizer does not know fences.
    const std::shared_ptr<std::byte> held = memory_;
  } else if (from != nullptr) {
    const auto fresh = std::make_shared<Block>(kilter::elems(shape) * size_bytes(type), "an output", from);
    memory_ = std::shared_ptr<std::byte>(fresh, fresh->data());
  } else {
    const auto fresh = std::make_shared<Tensor>(type, shape);
    memory_ = std::shared_ptr<std::byte>(fresh, fresh->raw());
  }
  return {type, shape, memory_.get(), memory_};
}

}  // namespace kilter
