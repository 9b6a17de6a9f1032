// Adds nodes to a graph by operator name: finds the definition, expands function operators, infers types, and folds
// constants. The importer, the zoo, `expand` hooks and passes all build graphs with it.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "ops/op.h"
#include "ops/support/fold.h"

namespace kilter {

constexpr int32_t kNewestOpset = 28;  ///< of ai.onnx

/// Thrown (it is not an Error) if an output's shape needs the value of a non-constant tensor.
struct ShapeNeedsValue {
  ValueId value;
  std::string node;  ///< "Reshape 'name'"
};

/// Thrown if a static graph cannot be built because an operator runs only in a program (vm/program.h): it has regions,
/// works on sequences or optional values, or the shape of its output depends on data.
class NeedsProgram : public Error {
 public:
  explicit NeedsProgram(const std::string& why)
      : Error(ErrorKind::unsupported, why + "; Kilter runs such a network as a program, which has no single plan"),
        why_(why) {}
  const std::string& why() const { return why_; }

 private:
  std::string why_;
};

class GraphBuilder {
 public:
  explicit GraphBuilder(Graph& graph, int32_t opset = kNewestOpset) : graph_(graph), opset_(opset) {}

  Graph& graph() { return graph_; }
  int32_t opset() const { return opset_; }

  struct Options {
    std::string name;                       ///< of the node; derived from the operator if empty
    std::vector<std::string> output_names;  ///< "" = not wanted
    std::string domain;
    int32_t opset = 0;        ///< 0: the builder's
    size_t output_count = 1;  ///< used if output_names is empty
    bool expand = true;       ///< expand function operators
  };
  /// Adds one node. Throws bad_model for illegal operands or attributes, unsupported for an unknown operator,
  /// NeedsProgram, and ShapeNeedsValue if a shape depends on data. A node whose inputs are all constant and whose
  /// outputs have at most `fold_limit` elements (or as many as its tensor attributes) is evaluated immediately by its
  /// reference kernel and becomes constants. Reshapes of constants become constants that share the bytes. Returns one
  /// id per requested output, kNone for those not wanted.
  std::vector<ValueId> add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs, const Options& options);
  ValueId add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {}, std::string name = {});

  /// Adds a node of one of Kilter's own operators and returns its single output.
  ValueId add_kilter(std::string_view op, std::vector<ValueId> inputs, Attrs attrs, std::string name);

  ValueId constant(Tensor tensor, std::string name = "const");
  /// Adds a constant i64[values.size()].
  ValueId list(std::span<const int64_t> values, std::string name = "const");
  ValueId input(std::string name, DType type, Shape shape) {
    return graph_.add_input(std::move(name), {type, std::move(shape), {}});
  }
  const TensorType& type(ValueId id) const { return graph_.type(id); }

  int64_t fold_limit = 4096;  ///< elements; negative: nothing is folded

 private:
  std::vector<ValueId> expand_node(const Node& node, const std::vector<std::string>& output_names, bool by_name);
  bool fold(const Node& node, const std::vector<std::optional<TensorType>>& types, std::vector<Tensor>& results);

  Graph& graph_;
  int32_t opset_;
  int depth_ = 0;  ///< nesting depth of expansions

 public:
  /// The budget for folding. Builders of parts of one model share one.
  std::shared_ptr<FoldBudget> fold_budget = std::make_shared<FoldBudget>();
};

/// The argument of OpDef::expand. While an expansion runs, the builder's opset is kNewestOpset, so expansions use the
/// newest form of every operator, whatever the model's opset.
class ExpandContext {
 public:
  ExpandContext(GraphBuilder& into, const Node& replaced) : builder(into), node(replaced) {}
  GraphBuilder& builder;
  const Node& node;  ///< the node to replace: its op, opset, attributes and inputs (not part of the graph)

  bool has(size_t i) const { return i < node.inputs.size() && node.inputs[i] != kNone; }
  ValueId in(size_t i) const { return node.inputs.at(i); }
  const TensorType& type(size_t i) const { return builder.type(in(i)); }
  ValueId add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return builder.add(op, std::move(inputs), std::move(attrs), node.name);
  }
  /// Adds a scalar constant of the given type.
  ValueId scalar(DType type, double value);
};

/// Throws bad_model unless a node has as many inputs and outputs as its operator takes, and its attributes.
void check_node(const Node& node);
/// Returns a node as hooks see it: types and constant values of its operands.
OpView view(const Graph& graph, const Node& node);
/// Runs the reference kernel of a node on dense tensors (undefined = omitted). Allocates the outputs, except those that
/// node.outputs omits (kNone), which stay undefined.
std::vector<Tensor> run_reference(const Node& node, std::vector<Tensor> inputs,
                                  const std::vector<TensorType>& output_types);
/// Infers the output types of a node from its operands. Throws NeedsValue (see op.h).
std::vector<std::optional<TensorType>> infer(const Node& node, std::vector<const TensorType*> types,
                                             std::vector<const Tensor*> values, size_t outputs);

/// Infers every node again from its operands, and throws internal if a value's element type or shape differs (layouts
/// are left to the passes). Skips nodes whose shapes depend on data.
void verify_types(const Graph& graph);

/// Broadcasts shapes as numpy does. Returns nullopt if they do not fit.
std::optional<Shape> broadcast_shapes(std::span<const Shape> shapes);
/// Returns an axis with -rank <= axis < rank as non-negative. Throws node_error otherwise.
int64_t normal_axis(const Node& node, int64_t axis, int64_t rank);

}  // namespace kilter
