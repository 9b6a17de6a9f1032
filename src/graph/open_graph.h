// A network before the shapes of its values are known: nodes over named values without types, with the graphs inside
// nodes (branches, bodies of loops) as regions. onnx/lower.h creates it from a model. From it, onnx/specialise.h
// creates a static Graph for given shapes, and vm/partition.h the functions of a program.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace kilter {

struct OpenGraph;

/// A graph inside a node.
struct Region {
  std::string attribute;  ///< then_branch, else_branch, body
  std::shared_ptr<const OpenGraph> graph;
  /// Values of the graph around the node. They are the inputs of `graph` that follow its own.
  std::vector<ValueId> captures;
};

/// A node whose ids are indices of OpenGraph::values. Its operator is null if Kilter lacks it.
struct OpenNode : Node {
  std::string label;    ///< as errors name it: "If 'if'"
  std::string op_name;  ///< as errors list it: "ai.onnx:If@17"
  std::vector<Region> regions;

  /// Returns the region of that attribute, or nullptr.
  const Region* region(std::string_view attribute) const;
};

struct OpenValue {
  std::string name;
  std::optional<Tensor> constant;
};

/// The type that a model declares for a value. Dimensions are -1 where the model leaves them open.
struct DeclaredType {
  enum class Kind : uint8_t { tensor, sequence, map, optional, other } kind = Kind::tensor;
  std::optional<DType> dtype;  ///< of the tensors
  std::optional<Shape> dims;   ///< nullopt: the rank is open
};

struct OpenGraph {
  struct Output {
    std::string name;
    ValueId value = kNone;
    DeclaredType declared;
  };
  std::string name;
  std::vector<OpenValue> values;
  std::vector<ValueId> inputs;  ///< own inputs, then captures
  size_t own_inputs = 0;
  std::vector<OpenNode> nodes;  ///< every producer before its users
  std::vector<Output> outputs;
};

}  // namespace kilter
