// A network in the form that the graph tuner needs: layers with alternatives, and the values that flow between them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compile/choices.h"
#include "compile/compile.h"
#include "tune/graph/problem.h"
#include "tune/graph/transforms.h"

namespace kilter::tune {

/// One way to run a layer.
struct Alternative {
  LayerChoice choice;  ///< `plain` applies to all nodes of the layer
  double ms = 0;
  double error_ms = 0;       ///< standard error of the difference to the layer's default time
  std::string basis;         ///< where ms comes from: "by default", "measured here", "records", "estimated"
  int64_t weight_bytes = 0;  ///< packed weights in excess of the default's
  int64_t bytes = 0;         ///< of the plan, in excess of those with the default; 0 if memory has no weight
};

/// A unit of the default plan: a task, or a view that takes no time.
struct Layer {
  std::string node;                        ///< the anchor, or the first node of a view
  std::vector<std::string> nodes;          ///< all nodes of the unit
  std::string problem, layouts, schedule;  ///< of its task by default; empty for views and reference kernels
  bool relayout = false;                   ///< changes a layout
  bool blocked = false;                    ///< its result is stored in blocks of channels
  bool may_be_plain = false;               ///< something other than a reference kernel can run it on plain images
  bool follows = false;                    ///< the layout pass blocks it only if its input is blocked
  double analytic_cycles = 0;              ///< on one core under the default schedule; 0: no model
  std::vector<Alternative> alternatives;   ///< the first is the default

  bool task() const { return !problem.empty(); }
};

/// A value that one layer writes and another reads.
struct Flow {
  size_t from = 0, to = 0;
  double bytes = 0;
};

struct LayerNetwork {
  std::vector<Layer> layers;
  std::vector<Flow> flows;
  /// Costs of running two layers with a pair of alternatives, without layout changes; `ms` is in the order of the
  /// alternatives.
  std::vector<ChoiceEdge> together;
  int32_t block = 1;

  /// The layer of a node of the graph after the passes; -1: none.
  int64_t layer_of(const std::string& node) const;
  /// Time of the default alternatives.
  double default_ms() const;

 private:
  friend LayerNetwork layer_network(const Compiled& compiled, const CompileOptions& options);
  std::map<std::string, size_t> by_node_;
};

/// The layer that writes most of the bytes that `layer` reads; SIZE_MAX: none.
size_t feeder(const LayerNetwork& network, size_t layer);

/// Builds the network of a default plan that was compiled with CompileContents::tasks. Every layer has one
/// alternative of 0 ms.
LayerNetwork layer_network(const Compiled& compiled, const CompileOptions& options);

/// Builds the problem from the costs of layers and layout changes. The cost of an alternative that is not in `keep` is
/// raised by its error, so that it is chosen only if its gain exceeds its uncertainty. `transforms` may be null if no
/// alternative is plain. Layers with only one alternative get no edges: the costs of those edges are added to their
/// neighbours' own costs. If bytes have a price, in ms per byte, it is added to the costs, and alternatives that take
/// too long (kMostTime) are impossible unless they are in `keep`. Throws internal if an alternative is plain and there
/// is no model.
ChoiceProblem choice_problem(const LayerNetwork& network, const TransformModel* transforms, int threads,
                             const std::vector<size_t>& keep, double byte_ms = 0);

/// The model's name for a layout change: "plain->c16".
std::string transform_kind(int32_t from_block, int32_t to_block);

enum class Solver : uint8_t {
  automatic,  ///< forest if the graph is a forest, otherwise pbqp
  forest,     ///< "dp"
  pbqp,
  greedy,
};
/// Parses "auto", "dp", "pbqp" or "greedy". Throws usage with this list for any other name.
Solver parse_solver(std::string_view name);

/// Throws usage if `forest` is requested and the graph is not a forest.
ChoiceAnswer solve(const ChoiceProblem& problem, Solver solver);

/// The alternative of each layer that `choices` asks for; the first if there is no match.
std::vector<size_t> indices(const LayerNetwork& network, const Choices& choices);
/// The choices in which these alternatives differ from the default.
Choices choices(const LayerNetwork& network, const std::vector<size_t>& indices);

}  // namespace kilter::tune
