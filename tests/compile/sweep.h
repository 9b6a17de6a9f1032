// Kinds of random networks, compiled for every instruction set and compared with the reference kernels.
#pragma once

#include "draw.h"

namespace kilter {

/// Networks of one kind. `make` adds nodes and outputs; what it draws illegally (bad_model) counts as not drawn, and at
/// most half may be.
struct NetKind {
  std::string_view name;
  void (*make)(SweepNet&);
  uint64_t count;  ///< networks in one run of the tests; KILTER_SWEEP in the environment overrules it
};

/// Draws the networks of a kind, runs each on every target of this machine and fails the current test for each that
/// is wrong.
void sweep(const NetKind& kind);

}  // namespace kilter
