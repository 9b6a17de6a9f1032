// A network as the graph tuner sees it: layers with alternatives, and what flows between them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compile/compile.h"
#include "tune/graph/problem.h"
#include "tune/graph/transforms.h"
#include "tune/tuner/plans/layer_choice.h"

namespace kilter::tune {

/// One way in which a layer may run.
struct Alternative {
  LayerChoice choice;  ///< `plain`: of all nodes of the layer
  double ms = 0;
  double error_ms = 0;       ///< standard error of what it takes more or less than the layer by default
  std::string basis;         ///< where ms comes from, in words: "by default", "measured here", "records", "estimated"
  int64_t weight_bytes = 0;  ///< of packed weights, more than by default
};

/// A unit of the default plan: a task, or a view that takes no time.
struct Layer {
  std::string node;                        ///< the anchor's, or the first node's of a view
  std::vector<std::string> nodes;          ///< all of it
  std::string problem, layouts, schedule;  ///< of its task by default; empty for views and reference kernels
  bool relayout = false;                   ///< it changes a layout
  bool blocked = false;                    ///< its result lies in blocks of channels
  bool may_be_plain = false;               ///< something else than a reference kernel can run it on plain images
  bool follows = false;                    ///< the layout pass blocks it only where what it reads is blocked
  double analytic_cycles = 0;              ///< of one core under the default schedule; 0: no model knows
  std::vector<Alternative> alternatives;   ///< the first is what runs by default

  bool task() const { return !problem.empty(); }
};

/// A value that a layer makes and another reads.
struct Flow {
  size_t from = 0, to = 0;
  double bytes = 0;
};

struct LayerNetwork {
  std::vector<Layer> layers;
  std::vector<Flow> flows;
  /// What alternatives of two layers cost together beside layouts; `ms` in the order of the alternatives.
  std::vector<ChoiceEdge> together;
  int32_t block = 1;

  /// The layer that a node of the graph after the passes belongs to; -1: none.
  int64_t layer_of(const std::string& node) const;
  /// Of what runs by default.
  double default_ms() const;

 private:
  friend LayerNetwork layer_network(const Compiled& compiled, const CompileOptions& options);
  std::map<std::string, size_t> by_node_;
};

/// The layer that makes most of what `layer` reads; SIZE_MAX: none.
size_t feeder(const LayerNetwork& network, size_t layer);

/// Of a default plan compiled with CompileOptions::keep_placed. Every layer has one alternative, of 0 ms.
LayerNetwork layer_network(const Compiled& compiled, const CompileOptions& options);

/// What layers and layout changes cost. A layer's alternative other than the one of `keep` costs its error more, so
/// that it has to be worth its uncertainty. `transforms` may be null where no alternative is plain. Layers with one
/// alternative are not joined by edges: their part is in the others' own costs. Throws internal for a network whose
/// alternatives are plain without a model.
ChoiceProblem choice_problem(const LayerNetwork& network, const TransformModel* transforms, int threads,
                             const std::vector<size_t>& keep);

/// The kind of a layout change in the model's words: "plain->c16".
std::string transform_kind(int32_t from_block, int32_t to_block);

enum class Solver : uint8_t {
  automatic,  ///< forest where the graph is one, else pbqp
  forest,     ///< "dp"
  pbqp,
  greedy,
};
/// "auto", "dp", "pbqp", "greedy". Throws usage listing them.
Solver parse_solver(std::string_view name);

/// Throws usage when `forest` is asked for and the graph is none.
ChoiceAnswer solve(const ChoiceProblem& problem, Solver solver);

/// For each layer the alternative that `choices` asks for; the first where it has none like that.
std::vector<size_t> indices(const LayerNetwork& network, const Choices& choices);
/// What differs from the default.
Choices choices(const LayerNetwork& network, const std::vector<size_t>& indices);

}  // namespace kilter::tune
