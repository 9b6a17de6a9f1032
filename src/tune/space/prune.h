// The analytic model's verdict on a space before anything is measured: which points are not worth a trial, and which
// limit rules them out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tune/space/space.h"

namespace kilter::tune {

struct SpacePruning {
  /// Rules out points that the model expects to take more than this many times the cycles of the space's best point. At
  /// least 1; infinity keeps all legal points.
  double beyond = 3;
};

struct RuledOut {
  std::string limit;  ///< "register tile", "3 times the best estimate"
  uint64_t count = 0;
};

struct Pruned {
  uint64_t raw = 0;                 ///< number of all points, legal or not: Space::raw_size()
  std::vector<RuledOut> ruled_out;  ///< most frequent first; the counts and points.size() add up to `raw`
  /// The remaining points, cheapest estimate first, equal ones in the space's order. They always include the default
  /// and the best point of each template.
  std::vector<Point> points;

  /// "1440 points; ruled out: 1022 by register tile, 96 by 3 times the best estimate; 322 left"
  std::string text() const;
};

/// Throws usage if options.beyond is below 1 or not a number.
Pruned prune(const Space& space, const SpacePruning& options = {});

}  // namespace kilter::tune
