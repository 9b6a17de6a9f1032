// Kinds of random networks, compiled for every instruction set with the default and with random schedules, and compared
// with their results in f64.
#pragma once

#include <vector>

#include "draw.h"

namespace kilter {

/// Networks of one kind. `make` adds nodes and outputs. An illegal draw (bad_model) does not count as a network; at
/// most half of the draws may be illegal. Every network is compiled for two instruction sets of this machine: the
/// native one, and another that depends on the seed. Each of them has the defaults and a random variation: a random
/// legal schedule of a random template for each task, and sometimes a layer that stays in the plain layout or is not
/// fused. Each compilation is one problem.
///
/// Environment variables: KILTER_SWEEP, the number of networks of each kind, which are then compiled for every
/// instruction set; KILTER_SWEEP_FROM, the seed of the first (0); KILTER_SWEEP_TARGET, the only instruction set.
struct NetKind {
  std::string_view name;
  void (*make)(SweepNet&);
  uint64_t count;                                ///< networks in one run of the tests
  std::vector<std::string_view> templates = {};  ///< templates that must be drawn in runs of 20 networks or more
  bool by_templates = false;                     ///< whether no step may run a reference kernel by default
};

/// Draws the networks of a kind and fails the current test for each wrong problem. The failure shows its seed,
/// problems, schedules, target, worst element, the case it shrinks to, and the command that runs it alone.
void sweep(const NetKind& kind);

}  // namespace kilter
