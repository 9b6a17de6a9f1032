// The analytic model's word on a space, before anything is measured: which points are not worth a trial, and which
// limit says so.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tune/space/space.h"

namespace kilter::tune {

struct SpacePruning {
  /// Points that the model expects to take more than this many times the cycles of the best point of the space are
  /// ruled out; at least 1. Infinity keeps all that are legal.
  double beyond = 3;
};

struct RuledOut {
  std::string limit;  ///< "register tile", "3 times the best estimate"
  uint64_t count = 0;
};

struct Pruned {
  uint64_t raw = 0;                 ///< points of the products
  std::vector<RuledOut> ruled_out;  ///< most first; their counts and points.size() add up to `raw`
  /// What is left: by estimate, cheapest first, equal ones in the space's order. Templates without a model come where
  /// their pick would stand if it took what the space's best takes. The default and the best point of each template
  /// are always among them.
  std::vector<Point> points;

  /// "1440 points; ruled out: 1022 by register tile, 96 by 3 times the best estimate; 322 left"
  std::string text() const;
};

/// Throws usage when options.beyond is below 1 or no number.
Pruned prune(const Space& space, const SpacePruning& options = {});

}  // namespace kilter::tune
