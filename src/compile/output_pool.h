// Memory for tensors whose sizes change from run to run.
#pragma once

#include <cstdint>
#include <memory>

#include "base/tensor.h"

namespace kilter {

/// A pool of memory for results; memory is reused once nothing refers to it. Free memory is dropped so that the pool,
/// including the results in use, has at most twice the recent peak: the most bytes in use at once during any of the
/// last kRuns runs. Only one thread at a time may call its functions. Results may be released in any thread, even after
/// the pool has been destroyed.
class OutputPool {
 public:
  static constexpr int kRuns = 8;

  OutputPool();
  /// Returns a tensor with uninitialised elements. Throws out_of_memory as Tensor does.
  Tensor take(DType type, const Shape& shape);
  /// Begins a run, and drops memory that has not been needed recently.
  void begin_run();
  /// Bytes of all memory, in use or not.
  int64_t bytes() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace kilter
