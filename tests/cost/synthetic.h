// Synthetic measurements of schedules, for tests of cost models.
#pragma once

#include "tune/cost/model.h"

namespace kilter::tune {

struct SyntheticOptions {
  size_t tasks = 8;
  size_t schedules = 120;  ///< for each task
  double noise = 0.02;     ///< standard deviation of a time's logarithm
  double failures = 0;     ///< share of schedules that fail
  double unknown = 0;      ///< share of features that are NaN
};

/// Ten features of schedules (tiles, unrolling, memory read by a tile, ...), some of them irrelevant. The cost rises in
/// steps where a tile outgrows the registers or a cache, and depends on the sizes of the task. The same seed gives the
/// same rows.
TrainingSet synthetic_set(const SyntheticOptions& options, uint64_t seed);

}  // namespace kilter::tune
