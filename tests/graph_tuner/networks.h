// Problems for the solvers: random ones, and ones shaped like networks.
#pragma once

#include "base/random.h"
#include "tune/graph/problem.h"

namespace kilter::tune {

struct RandomOptions {
  size_t nodes = 6;
  size_t alternatives = 4;      ///< most for one node
  double edges_per_node = 1.5;  ///< some join the same nodes
  double impossible = 0;        ///< share of infinite costs
  bool forest = false;
  bool whole = false;  ///< costs are small whole numbers, some below 0, so that many choices cost the same
};

/// The same seed gives the same problem.
ChoiceProblem random_problem(const RandomOptions& options, uint64_t seed);

enum class Shape { chain, residual, inception, dense, dense_flat };

/// About `nodes` layers with `alternatives` each. An alternative is a layout and a speed, and layers with different
/// layouts are joined by a layout change whose cost depends on the size of the value.
///   residual: blocks of three layers and a sum with the block's input; every fourth block has a layer on the shortcut.
///   inception: blocks of branches of one to four layers that meet in a concat, which the next block's branches read.
///   dense: blocks of layers whose concat reads all earlier layers of the block, with one concat for each layer.
///   dense_flat: like dense, but without nodes for the concats: each layer reads all earlier ones of the block itself.
ChoiceProblem network_problem(Shape shape, size_t nodes, size_t alternatives, uint64_t seed);

}  // namespace kilter::tune
