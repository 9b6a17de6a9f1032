// Memory for tensors whose sizes change from run to run.
#pragma once

#include <cstdint>
#include <memory>

#include "base/tensor.h"

namespace kilter {

/// Memory for results, which later results use again once nothing refers to it. Apart from the results that are in use,
/// the pool keeps at most as much as lets its memory be twice the recent need: the most bytes that were in use at once
/// in one of the last kRuns runs. One thread at a time calls its functions; results may be released in any thread, and
/// after the pool.
class OutputPool {
 public:
  static constexpr int kRuns = 8;

  OutputPool();
  /// A tensor whose elements have any values. Throws out_of_memory as Tensor does.
  Tensor take(DType type, const Shape& shape);
  /// Begins a run, and releases what has not been needed recently.
  void begin_run();
  /// Bytes of all memory, in use or not.
  int64_t bytes() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace kilter
