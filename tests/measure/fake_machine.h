// A machine whose clock and disturbances a test decides.
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
  /// Another process has the CPU for so long.
  void stall(double ms) {
    now += ms;
    state.wait_ms += ms;
    state.switches += 1;
  }
};

}  // namespace kilter
