#include "onnx/lower.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "onnx/attributes.h"
#include "ops/op.h"

namespace kilter::onnx {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<pb::NodeProto>;

/// A graph that is being built, inside the graph that contains its node.
struct Body {
  OpenGraph graph = {};
  Body* outer = nullptr;
  std::vector<ValueId> captures = {};                    ///< values of the outer graph
  std::vector<ValueId> captured = {};                    ///< the inputs that they become
  std::unordered_map<ValueId, ValueId> brought_in = {};  ///< values of the outer graph: their ids in this one

  ValueId add(std::string name, std::optional<Tensor> constant = {}) {
    graph.values.push_back({std::move(name), std::move(constant)});
    return static_cast<ValueId>(graph.values.size() - 1);
  }
};

/// The names of one graph or function body.
struct Scope {
  Body& body;
  Scope* outer = nullptr;
  std::unordered_map<std::string_view, ValueId> values = {};
  std::unordered_map<std::string_view, const pb::TensorProto*> initializers = {};  ///< not yet in the graph
};

/// The context in which nodes are read: the graph itself or a call of a function.
struct Frame {
  const Opsets& opsets;
  const Attrs* call = nullptr;
  std::string prefix = {};  ///< prefix of node and value names
};

std::string title(const pb::NodeProto& node, const std::string& prefix) {
  if (!node.name().empty()) return prefix + node.name();
  for (const auto& output : node.output()) {
    if (!output.empty()) return prefix + output;
  }
  return prefix + node.op_type();
}

DeclaredType declared(const pb::TypeProto& type) {
  DeclaredType out;
  switch (type.value_case()) {
    case pb::TypeProto::kTensorType:
      break;
    case pb::TypeProto::kSequenceType:
      out = declared(type.sequence_type().elem_type());
      out.kind = DeclaredType::Kind::sequence;
      return out;
    case pb::TypeProto::kOptionalType:
      out = declared(type.optional_type().elem_type());
      out.kind = DeclaredType::Kind::optional;
      return out;
    case pb::TypeProto::kMapType:
      out.kind = DeclaredType::Kind::map;
      return out;
    default:
      out.kind = DeclaredType::Kind::other;
      return out;
  }
  out.dtype = dtype_of_number(type.tensor_type().elem_type());
  if (!type.tensor_type().has_shape()) return out;
  out.dims.emplace();
  for (const auto& dim : type.tensor_type().shape().dim())
    out.dims->push_back(dim.has_dim_value() && dim.dim_value() >= 0 ? dim.dim_value() : -1);
  return out;
}

class Lowering {
 public:
  Lowering(const ModelData& model, const std::set<std::string>& given) : model_(model), given_(given) {}

  OpenGraph run() {
    Body body;
    Scope scope{body};
    fill(model_.graph(), scope, {model_.opsets});
    return std::move(body.graph);
  }

 private:
  /// Adds the inputs, nodes and outputs of a graph to the body of `scope`.
  void fill(const pb::GraphProto& graph, Scope& scope, const Frame& frame) {
    Body& body = scope.body;
    body.graph.name = graph.name();
    for (const auto& initializer : graph.initializer()) scope.initializers.emplace(initializer.name(), &initializer);
    for (const auto& sparse : graph.sparse_initializer())
      scope.initializers.emplace(sparse.values().name(), &sparse.values());
    for (const auto& input : graph.input()) {
      const auto fallback = scope.initializers.find(input.name());
      const bool given = body.outer != nullptr || fallback == scope.initializers.end() || given_.contains(input.name());
      const ValueId id = given ? body.add(input.name()) : body.add(input.name(), model_.tensors.at(fallback->second));
      scope.values.emplace(input.name(), id);
      body.graph.inputs.push_back(id);
    }
    body.graph.own_inputs = body.graph.inputs.size();
    for (const int index : model_.orders.at(&graph)) visit(graph.node(index), scope, frame);
    for (const auto& output : graph.output())
      body.graph.outputs.push_back({output.name(), lookup(output.name(), scope), declared(output.type())});
    body.graph.inputs.insert(body.graph.inputs.end(), body.captured.begin(), body.captured.end());
  }

  ValueId lookup(const std::string& name, Scope& scope) {
    if (name.empty()) return kNone;
    for (Scope* at = &scope; at != nullptr; at = at->outer) {
      const auto found = at->values.find(name);
      if (found != at->values.end()) return bring(found->second, at->body, scope.body);
      const auto initializer = at->initializers.find(name);
      if (initializer == at->initializers.end()) continue;
      const ValueId id = at->body.add(name, model_.tensors.at(initializer->second));
      at->values.emplace(initializer->first, id);
      return bring(id, at->body, scope.body);
    }
    fail(ErrorKind::internal, "{}: the name {} passed the checks but cannot be found", model_.file, quote(name));
  }

  /// Returns the id that a value of `from` has in `to`, a body inside it. Constants are copied, which shares their
  /// elements; other values are captured.
  static ValueId bring(ValueId id, const Body& from, Body& to) {
    if (id == kNone || &from == &to) return id;
    const ValueId near = bring(id, from, *to.outer);
    const auto known = to.brought_in.find(near);
    if (known != to.brought_in.end()) return known->second;
    const OpenValue& value = to.outer->graph.values[static_cast<size_t>(near)];
    const ValueId made = to.add(value.name, value.constant);
    if (!value.constant) {
      to.captures.push_back(near);
      to.captured.push_back(made);
    }
    to.brought_in.emplace(near, made);
    return made;
  }

  void visit(const pb::NodeProto& node, Scope& scope, const Frame& frame) {
    std::vector<ValueId> inputs;
    for (const auto& input : node.input()) inputs.push_back(lookup(input, scope));
    const std::vector<ValueId> outputs = make(node, std::move(inputs), scope, frame);
    for (int i = 0; i < node.output_size(); ++i) {
      if (!node.output(i).empty()) scope.values[node.output(i)] = outputs[static_cast<size_t>(i)];
    }
  }

  std::vector<ValueId> make(const pb::NodeProto& node, std::vector<ValueId> inputs, Scope& scope, const Frame& frame) {
    if (const Function* function = model_.functions.find(node)) return call(node, *function, inputs, scope, frame);
    const auto domain = normal_domain(node.domain());
    if (domain.empty() && node.op_type() == "Constant") return {constant(node, scope, frame)};
    OpenNode made;
    made.opset = opset_of(frame.opsets, node);
    made.op = find_op(domain, node.op_type(), made.opset);
    made.name = title(node, frame.prefix);
    made.label = node_text(node);
    made.op_name = fmt::format("{}:{}@{}", domain.empty() ? "ai.onnx" : domain, node.op_type(), made.opset);
    made.attrs = read_attrs(node, model_, frame.call);
    made.inputs = std::move(inputs);
    for (const auto& attribute : node.attribute()) {
      if (attribute.type() == kGraphAttr) made.regions.push_back(region(node, attribute, scope, frame));
    }
    for (const auto& output : node.output())
      made.outputs.push_back(output.empty() ? kNone : scope.body.add(frame.prefix + output));
    std::vector<ValueId> outputs = made.outputs;
    scope.body.graph.nodes.push_back(std::move(made));
    return outputs;
  }

  ValueId constant(const pb::NodeProto& node, Scope& scope, const Frame& frame) {
    if (node.output_size() != 1) {
      fail(ErrorKind::bad_model, "{}: {}: has {} outputs, expected 1", model_.file, node_text(node),
           node.output_size());
    }
    return scope.body.add(frame.prefix + node.output(0),
                          constant_value(node, read_attrs(node, model_, frame.call), model_.file));
  }

  Region region(const pb::NodeProto& node, const pb::AttributeProto& attribute, Scope& scope, const Frame& frame) {
    if (!attribute.has_g()) {
      fail(ErrorKind::bad_model, "{}: {}: attribute {} has the type of a graph, but contains none", model_.file,
           node_text(node), quote(attribute.name()));
    }
    Body body{.outer = &scope.body};
    Scope inner{body, &scope};
    fill(attribute.g(), inner, frame);
    return {attribute.name(), std::make_shared<OpenGraph>(std::move(body.graph)), std::move(body.captures)};
  }

  std::vector<ValueId> call(const pb::NodeProto& node, const Function& function, const std::vector<ValueId>& inputs,
                            Scope& scope, const Frame& frame) {
    const pb::FunctionProto& body = *function.proto;
    if (node.input_size() > body.input_size() || node.output_size() > body.output_size()) {
      fail(ErrorKind::bad_model, "{}: {}: calls its function with {} inputs and {} outputs; expected at most {} and {}",
           model_.file, node_text(node), node.input_size(), node.output_size(), body.input_size(), body.output_size());
    }
    const Attrs attrs = call_attrs(node, function, model_, read_attrs(node, model_, frame.call));
    Scope inner{scope.body};
    for (int i = 0; i < body.input_size(); ++i) {
      inner.values[body.input(i)] = static_cast<size_t>(i) < inputs.size() ? inputs[static_cast<size_t>(i)] : kNone;
    }
    const Frame called{function.opsets, &attrs, title(node, frame.prefix) + "/"};
    for (const int index : model_.orders.at(&body)) visit(body.node(index), inner, called);
    std::vector<ValueId> outputs;
    for (int i = 0; i < node.output_size(); ++i) outputs.push_back(lookup(body.output(i), inner));
    return outputs;
  }

  const ModelData& model_;
  const std::set<std::string>& given_;
};

}  // namespace

std::shared_ptr<const OpenGraph> lower(const ModelData& model, const std::set<std::string>& given) {
  return std::make_shared<OpenGraph>(Lowering(model, given).run());
}

std::shared_ptr<const OpenGraph> ModelData::open_graph(const std::set<std::string>& given) const {
  if (!given.empty()) return lower(*this, given);
  std::call_once(lowered_, [&] { open_graph_ = lower(*this); });
  return open_graph_;
}

}  // namespace kilter::onnx
