#include "onnx/bind.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "onnx/attributes.h"
#include "onnx/bind_inputs.h"
#include "onnx/data_need.h"
#include "onnx/missing.h"

namespace kilter::onnx {
namespace {

/// Stands for a value that Mode::probe cannot compute because an input's value is not known.
constexpr ValueId kUnknown = -2;

std::string title(const pb::NodeProto& node, const std::string& prefix) {
  if (!node.name().empty()) return prefix + node.name();
  for (const auto& output : node.output()) {
    if (!output.empty()) return prefix + output;
  }
  return prefix + node.op_type();
}

}  // namespace

Graph Binder::run() {
  MissingOps missing(model_);
  for (const Missing& port : model_.odd_ports) missing.add(port);
  missing.look(model_.graph().node(), model_.opsets, false);
  missing.fail_if_any();
  graph_.name = model_.graph().name();
  Scope scope;
  add_inputs(scope);
  add_initializers(model_.graph(), scope);
  const auto standard = model_.opsets.find("");
  GraphBuilder builder(graph_, standard == model_.opsets.end() ? kNewestOpset : static_cast<int32_t>(standard->second));
  Frame frame{model_.opsets, builder, nullptr, ""};
  walk(model_.graph().node(), &model_.graph(), scope, frame);
  if (mode_ == Mode::probe) return {};
  add_outputs(scope);
  graph_.remove_dead();
  verify(graph_);
  return std::move(graph_);
}

std::vector<std::string> Binder::needed_inputs() {
  run();
  return {needed_.begin(), needed_.end()};
}

void Binder::add_inputs(Scope& scope) {
  std::set<std::string_view> narrow;
  for (const auto& info : model_.graph().input()) {
    if (is_four_bits(info.type().tensor_type().elem_type())) narrow.insert(info.name());
  }
  for (const BoundInput& input : bind_inputs(model_, shapes_, values_)) {
    const std::string& name = input.port->name;
    const ValueId id = input.value != nullptr ? graph_.add_constant(name, *input.value)
                                              : graph_.add_input(name, {input.port->type, input.shape, {}});
    if (narrow.contains(name)) four_bits_.add(id);
    scope.values.emplace(name, id);
  }
}

void Binder::add_initializers(const pb::GraphProto& graph, Scope& scope) {
  for (const auto& initializer : graph.initializer()) {
    if (!scope.values.contains(initializer.name())) scope.initializers.emplace(initializer.name(), &initializer);
  }
}

void Binder::walk(const Nodes& nodes, const void* body, Scope& scope, Frame& frame) {
  for (const int index : model_.orders.at(body)) visit(nodes[index], scope, frame);
}

ValueId Binder::lookup(const std::string& name, Scope& scope) {
  if (name.empty()) return kNone;
  for (Scope* at = &scope; at != nullptr; at = at->outer) {
    const auto found = at->values.find(name);
    if (found != at->values.end()) return found->second;
    const auto initializer = at->initializers.find(name);
    if (initializer == at->initializers.end()) continue;
    const ValueId id = graph_.add_constant(name, model_.tensors.at(initializer->second));
    if (is_four_bits(initializer->second->data_type())) four_bits_.add(id);
    at->values.emplace(initializer->first, id);
    return id;
  }
  fail(ErrorKind::internal, "{}: the name {} passed the checks but cannot be found", model_.file, quote(name));
}

void Binder::visit(const pb::NodeProto& node, Scope& scope, Frame& frame) {
  std::vector<ValueId> inputs;
  for (const auto& input : node.input()) inputs.push_back(lookup(input, scope));
  std::vector<ValueId> outputs;
  if (std::find(inputs.begin(), inputs.end(), kUnknown) == inputs.end()) {
    try {
      outputs = make(node, inputs, scope, frame);
    } catch (const ShapeNeedsValue& need) {
      need_value(need.value, fmt::format("the shape of an output of {}", need.node));
      outputs.assign(static_cast<size_t>(node.output_size()), kUnknown);
    }
  }
  outputs.resize(static_cast<size_t>(node.output_size()), kUnknown);
  for (int i = 0; i < node.output_size(); ++i) {
    if (!node.output(i).empty()) scope.values[node.output(i)] = outputs[static_cast<size_t>(i)];
  }
}

std::vector<ValueId> Binder::make(const pb::NodeProto& node, const std::vector<ValueId>& inputs, Scope& scope,
                                  Frame& frame) {
  if (const Function* function = model_.functions.find(node)) return call(node, *function, inputs, frame);
  if (is_if(node, model_)) {
    if (inputs.size() != 1 || inputs[0] == kNone) {
      fail(ErrorKind::bad_model, "{}: {}: expected one input, the condition, got {}", model_.file, node_text(node),
           inputs.size());
    }
    return choose(node, inputs[0], scope, frame);
  }
  const bool standard = normal_domain(node.domain()).empty();
  if (standard && node.op_type() == "Constant") {
    if (node.output_size() != 1) {
      fail(ErrorKind::bad_model, "{}: {}: has {} outputs, expected 1", model_.file, node_text(node),
           node.output_size());
    }
    const Tensor value = constant_value(node, read_attrs(node, model_, frame.call), model_.file);
    const ValueId id = graph_.add_constant(frame.prefix + node.output(0), value);
    if (std::ranges::any_of(node.attribute(), [](const auto& a) { return is_four_bits(a.t().data_type()); }))
      four_bits_.add(id);
    return {id};
  }
  const bool is_alias = standard && node.op_type() == "Identity" && inputs.size() == 1 && inputs[0] != kNone;
  if (is_alias && node.output_size() == 1 && graph_.value(inputs[0]).constant) return inputs;
  return add(node, inputs, frame);
}

std::vector<ValueId> Binder::add(const pb::NodeProto& node, const std::vector<ValueId>& inputs, Frame& frame) {
  GraphBuilder::Options options;
  options.name = title(node, frame.prefix);
  options.domain = node.domain();
  options.opset = opset_of(frame.opsets, node);
  for (const auto& output : node.output()) options.output_names.push_back(output.empty() ? "" : frame.prefix + output);
  const bool narrow =
      four_bits_.check(node, find_op(normal_domain(node.domain()), node.op_type(), options.opset), inputs, model_.file);
  try {
    const std::vector<ValueId> made =
        frame.builder.add(node.op_type(), inputs, read_attrs(node, model_, frame.call), options);
    if (narrow) std::ranges::for_each(made, [&](ValueId v) { four_bits_.add(v); });
    return made;
  } catch (const Error& error) {
    if (error.message().starts_with(model_.file)) throw;
    throw Error(error.kind(), model_.file + ": " + error.message());
  } catch (const std::bad_alloc&) {
    fail(ErrorKind::out_of_memory, "{}: {}: out of memory while it was added to the graph", model_.file,
         node_text(node));
  }
}

std::vector<ValueId> Binder::call(const pb::NodeProto& node, const Function& function,
                                  const std::vector<ValueId>& inputs, Frame& frame) {
  const pb::FunctionProto& body = *function.proto;
  if (node.input_size() > body.input_size() || node.output_size() > body.output_size()) {
    fail(ErrorKind::bad_model, "{}: {}: calls its function with {} inputs and {} outputs; expected at most {} and {}",
         model_.file, node_text(node), node.input_size(), node.output_size(), body.input_size(), body.output_size());
  }
  const Attrs attrs = call_attrs(node, function, model_, read_attrs(node, model_, frame.call));
  Scope scope;
  for (int i = 0; i < body.input_size(); ++i) {
    scope.values[body.input(i)] = static_cast<size_t>(i) < inputs.size() ? inputs[static_cast<size_t>(i)] : kNone;
  }
  const auto standard = function.opsets.find("");
  GraphBuilder builder(graph_,
                       standard == function.opsets.end() ? kNewestOpset : static_cast<int32_t>(standard->second));
  builder.fold_budget = frame.builder.fold_budget;
  Frame inner{function.opsets, builder, &attrs, title(node, frame.prefix) + "/"};
  walk(body.node(), &body, scope, inner);
  std::vector<ValueId> outputs;
  for (int i = 0; i < node.output_size(); ++i) outputs.push_back(lookup(body.output(i), scope));
  return outputs;
}

std::vector<ValueId> Binder::choose(const pb::NodeProto& node, ValueId condition, Scope& scope, Frame& frame) {
  const auto& known = graph_.value(condition).constant;
  if (!known) {
    need_value(condition, fmt::format("which branch of {} runs", node_text(node)));
    return {};
  }
  if (known->dtype() != DType::boolean || known->elems() != 1) {
    fail(ErrorKind::bad_model, "{}: {}: expected one bool as condition, got {}", model_.file, node_text(node),
         text(graph_.type(condition)));
  }
  const std::string wanted = *known->data<bool>() ? "then_branch" : "else_branch";
  const pb::GraphProto* branch = nullptr;
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() == wanted && attribute.has_g()) branch = &attribute.g();
  }
  if (branch == nullptr || branch->input_size() > 0 || branch->output_size() != node.output_size()) {
    fail(ErrorKind::bad_model, "{}: {}: expected a graph without inputs and with {} outputs as its {}, got {}",
         model_.file, node_text(node), node.output_size(), wanted,
         branch == nullptr ? "none"
                           : fmt::format("{} inputs and {} outputs", branch->input_size(), branch->output_size()));
  }
  MissingOps missing(model_);
  missing.look(branch->node(), frame.opsets, false);
  missing.fail_if_any();
  Scope inner;
  inner.outer = &scope;
  add_initializers(*branch, inner);
  walk(branch->node(), branch, inner, frame);
  std::vector<ValueId> outputs;
  for (const auto& output : branch->output()) outputs.push_back(lookup(output.name(), inner));
  return outputs;
}

void Binder::need_value(ValueId value, const std::string& what) {
  const DataNeed need = trace_need(graph_, value);
  std::vector<std::string> names;
  for (const ValueId input : need.inputs) names.push_back(graph_.value(input).name);
  if (mode_ == Mode::probe && need.known_by_inputs) {
    needed_.insert(names.begin(), names.end());
    return;
  }
  const std::string& value_name = graph_.value(value).name;
  if (!need.known_by_inputs) {
    fail(ErrorKind::unsupported,
         "{}: {} depends on data that are known only while the model runs, the value {}: {}; Kilter needs every shape "
         "before the run",
         model_.file, what, quote(value_name), need.obstacle);
  }
  std::vector<std::string> options;
  for (const auto& name : names) options.push_back("--input " + shell_word(name + "=FILE.npy"));
  fail(ErrorKind::unsupported, "{}: {} depends on the value {}, which is computed from inputs: give their values, `{}`",
       model_.file, what, quote(value_name), fmt::join(options, " "));
}

/// The declared shapes of outputs are ignored: they are often wrong in real models, because the exporter traced the
/// model with other inputs.
void Binder::check_output(const Port& port, const TensorType& type) const {
  if (port.type == type.dtype) return;
  fail(ErrorKind::bad_model, "{}: output {}: declared {}, but its nodes make {}; correct the declaration in the model",
       model_.file, quote(port.name), text(port), text(type));
}

void Binder::add_outputs(Scope& scope) {
  for (const Port& port : model_.outputs) {
    const ValueId id = lookup(port.name, scope);
    if (id == kNone) {
      fail(ErrorKind::bad_model, "{}: output {} is an input that a function call leaves out", model_.file,
           quote(port.name));
    }
    check_output(port, graph_.type(id));
    graph_.add_output(id, port.name);
  }
}

std::vector<Missing> Model::missing() const {
  MissingOps missing(*impl_);
  for (const Missing& port : impl_->odd_ports) missing.add(port);
  missing.look(impl_->graph().node(), impl_->opsets, true);
  return missing.list();
}

Graph Model::bind(const Shapes& shapes, const Values& values) const {
  return Binder(*impl_, shapes, values, Binder::Mode::bind).run();
}

std::vector<std::string> Model::value_inputs(const Shapes& shapes, const Values& values) const {
  return Binder(*impl_, shapes, values, Binder::Mode::probe).needed_inputs();
}

}  // namespace kilter::onnx
