// Problems for the solvers: random ones, and ones of the shapes of networks.
#pragma once

#include "base/random.h"
#include "tune/graph/problem.h"

namespace kilter::tune {

struct RandomOptions {
  size_t nodes = 6;
  size_t alternatives = 4;      ///< of a node, at most
  double edges_per_node = 1.5;  ///< some of them between the same nodes
  double impossible = 0;        ///< share of infinite costs
  bool forest = false;
  bool whole = false;  ///< costs are small whole numbers, so that many choices cost the same; some below 0
};

/// The same seed gives the same problem.
ChoiceProblem random_problem(const RandomOptions& options, uint64_t seed);

enum class Shape { chain, residual, inception, dense, dense_flat };

/// About `nodes` layers with `alternatives` each, an alternative being a layout and a speed: between layers of
/// different layouts stands a change that costs by the size of what is between them.
///   residual: blocks of three layers and a sum with what went in; every fourth block has a layer on the way round.
///   inception: blocks of branches of one to four layers that meet in a concat that all branches of the next one read.
///   dense: blocks of layers whose concat reads all earlier layers of the block, and each layer its own concat.
///   dense_flat: the same without nodes for the concats: each layer reads all earlier ones of the block itself.
ChoiceProblem network_problem(Shape shape, size_t nodes, size_t alternatives, uint64_t seed);

}  // namespace kilter::tune
