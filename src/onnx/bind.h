// Makes one static graph from a model, its input shapes and the values that shapes depend on.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "onnx/four_bits.h"
#include "onnx/model_data.h"
#include "ops/support/builder.h"

namespace kilter::onnx {

class Binder {
 public:
  enum class Mode {
    bind,   ///< make the whole graph or throw
    probe,  ///< only collect the inputs whose values are needed
  };
  Binder(const ModelData& model, const Model::Shapes& shapes, const Model::Values& values, Mode mode)
      : model_(model), shapes_(shapes), values_(values), mode_(mode) {}

  /// Runs in Mode::bind; see Model::bind.
  Graph run();
  /// Runs in Mode::probe; see Model::value_inputs.
  std::vector<std::string> needed_inputs();

 private:
  using Nodes = google::protobuf::RepeatedPtrField<pb::NodeProto>;
  /// The names of one graph or function body.
  struct Scope {
    Scope* outer = nullptr;
    std::unordered_map<std::string_view, ValueId> values;
    std::unordered_map<std::string_view, const pb::TensorProto*> initializers;  ///< not yet in the graph
  };
  /// The context in which a body is expanded: the graph itself or a call of a function.
  struct Frame {
    const Opsets& opsets;
    GraphBuilder& builder;
    const Attrs* call = nullptr;
    std::string prefix;  ///< prefix of node and value names
  };

  void add_inputs(Scope& scope);
  void add_outputs(Scope& scope);
  void walk(const Nodes& nodes, const void* body, Scope& scope, Frame& frame);
  void visit(const pb::NodeProto& node, Scope& scope, Frame& frame);
  std::vector<ValueId> make(const pb::NodeProto& node, const std::vector<ValueId>& inputs, Scope& scope, Frame& frame);
  std::vector<ValueId> add(const pb::NodeProto& node, const std::vector<ValueId>& inputs, Frame& frame);
  std::vector<ValueId> call(const pb::NodeProto& node, const Function& function, const std::vector<ValueId>& inputs,
                            Frame& frame);
  std::vector<ValueId> choose(const pb::NodeProto& node, ValueId condition, Scope& scope, Frame& frame);
  ValueId lookup(const std::string& name, Scope& scope);
  void add_initializers(const pb::GraphProto& graph, Scope& scope);
  /// Handles a value that must be known but is not: records the inputs to ask for, or throws.
  void need_value(ValueId value, const std::string& what);
  void check_output(const Port& port, const TensorType& type) const;

  const ModelData& model_;
  const Model::Shapes& shapes_;
  const Model::Values& values_;
  Mode mode_;
  Graph graph_;
  FourBitValues four_bits_;
  std::set<std::string> needed_;
};

}  // namespace kilter::onnx
