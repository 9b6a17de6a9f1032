// Kinds of random networks, compiled for every instruction set with the default and with random schedules, and compared
// with their answer in f64.
#pragma once

#include <vector>

#include "draw.h"

namespace kilter {

/// Networks of one kind. `make` adds nodes and outputs; what it draws illegally (bad_model) counts as not drawn, and at
/// most half may be. Every network is compiled for every instruction set of this machine, with the defaults and with a
/// random variation: a random legal schedule of a random template for each task, and at times a layer that stays plain
/// or takes nothing in. Each of that is one problem.
///
/// In the environment: KILTER_SWEEP, the number of networks of each kind; KILTER_SWEEP_FROM, the seed of the first (0);
/// KILTER_SWEEP_TARGET, the only instruction set.
struct NetKind {
  std::string_view name;
  void (*make)(SweepNet&);
  uint64_t count;                                ///< networks in one run of the tests
  std::vector<std::string_view> templates = {};  ///< that random schedules must come from in 20 networks or more
  bool by_templates = false;                     ///< whether no step may run a reference kernel by default
};

/// Draws the networks of a kind and fails the current test for each problem that is wrong, with its seed, problems,
/// schedules, target, the worst element, what it shrinks to, and the command that runs it alone.
void sweep(const NetKind& kind);

}  // namespace kilter
