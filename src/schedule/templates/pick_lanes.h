// Vectors assembled from lanes of other vectors, by shuffles.
#pragma once

#include <span>
#include <vector>

#include "loop/expr.h"

namespace kilter {

/// Lane `lane` of vector number `vector`; 0 if `vector` is -1.
struct LaneOf {
  int32_t vector = -1, lane = 0;
};

/// Emits one shuffle for each of `vectors` that contributes a lane. All vectors have the same type and as many lanes as
/// `lanes`.
Expr pick_lanes(std::span<const Expr> vectors, std::span<const LaneOf> lanes);

}  // namespace kilter
