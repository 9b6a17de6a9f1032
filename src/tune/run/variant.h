// A variant in the worker process.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "exec/executor.h"
#include "tune/run/value.h"
#include "tune/run/wire.h"

namespace kilter::tune {

struct WorkerVariant {
  int64_t id = 0;
  std::shared_ptr<const Program> program;
  std::vector<StepValue> values;
  std::vector<std::vector<size_t>> values_of;  ///< by step: indexes into `values`

  const Plan& plan() const { return program->plan(); }
};

/// Publishes the worker's state on the board, at the cost of one store per step. The tuner reads it after a long wait,
/// or after the worker has died.
class Publisher {
 public:
  explicit Publisher(Board& board) : board_(board) {}

  void enter(Phase phase, int64_t variant) {
    board_.variant.store(variant, std::memory_order_relaxed);
    board_.phase.store(phase, std::memory_order_relaxed);
    step(-1);
  }
  void phase(Phase phase) { board_.phase.store(phase, std::memory_order_relaxed); }
  void step(int64_t step) {
    board_.step.store(step, std::memory_order_relaxed);
    board_.beat.fetch_add(1, std::memory_order_relaxed);
  }
  Board& board() { return board_; }

 private:
  Board& board_;
};

}  // namespace kilter::tune
