// A machine whose clock and disturbances a test controls.
#pragma once

#include "measure/quiet.h"

namespace kilter {

struct FakeMachine {
  double now = 1000;  ///< milliseconds
  QuietReading state{0, 0, 0, 4000, true, true};

  auto clock() {
    return [this] { return now; };
  }
  auto quiet() {
    return [this] { return state; };
  }
  void work(double ms) { now += ms; }
  /// Simulates another process that occupies the CPU for `ms`.
  void stall(double ms) {
    now += ms;
    state.wait_ms += ms;
    state.switches += 1;
  }
};

}  // namespace kilter
