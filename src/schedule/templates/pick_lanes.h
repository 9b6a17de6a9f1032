// Vectors put together from lanes of others, by shuffles.
#pragma once

#include <span>
#include <vector>

#include "loop/expr.h"

namespace kilter {

/// Lane `lane` of one of several vectors; 0 where `vector` is -1.
struct LaneOf {
  int32_t vector = -1, lane = 0;
};

/// One shuffle for each of `vectors` that gives a lane; all are of one type and of as many lanes as `lanes`.
Expr pick_lanes(std::span<const Expr> vectors, std::span<const LaneOf> lanes);

}  // namespace kilter
