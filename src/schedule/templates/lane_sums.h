// Reductions over the lanes of several vectors at the same time, which need fewer instructions than separate ones.
#pragma once

#include <vector>

#include "loop/loop.h"

namespace kilter {

/// Reduces the lanes of each vector by `op`. One vector gives a scalar. Several vectors (at most as many as they have
/// lanes, whose number is a power of two) give a vector in which lane i is the result for vector i. The elements of
/// each vector are combined in the order of lane_reduce().
Expr reduce_lanes(LoopBuilder& b, Op op, std::vector<Expr> vectors);

}  // namespace kilter
