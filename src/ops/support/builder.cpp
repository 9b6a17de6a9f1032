#include "ops/support/builder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/convert.h"
#include "graph/values.h"

namespace kilter {
namespace {

constexpr int kMaxDepth = 32;

std::string_view shown_domain(std::string_view domain) { return domain.empty() ? "ai.onnx" : domain; }

const OpDef* find_or_fail(std::string_view domain, std::string_view op, int32_t opset, const std::string& node_name) {
  const OpDef* def = find_op(domain, op, opset);
  if (def != nullptr) return def;
  std::string known;
  for (const OpDef* other : all_ops()) {
    if (other->name != op || other->domain != domain) continue;
    known += known.empty() ? "; known for opsets " : ", ";
    known += fmt::format("{}", other->since);
    known += other->until == std::numeric_limits<int32_t>::max() ? " and newer" : fmt::format(" to {}", other->until);
  }
  fail(ErrorKind::unsupported, "{} '{}': unknown operator {} of domain {} at opset {}{}", op, node_name, op,
       shown_domain(domain), opset, known);
}

std::string range_text(int32_t least, int32_t most) {
  if (most < 0) return fmt::format("{} or more", least);
  return least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
}

/// Checks the numbers of inputs and outputs and that no required one is left out.
void check_counts(const Node& node, size_t outputs) {
  const OpDef& def = *node.op;
  const auto inputs = static_cast<int32_t>(node.inputs.size());
  if (inputs < def.min_inputs || (def.max_inputs >= 0 && inputs > def.max_inputs)) {
    node_error(node, fmt::format("has {} inputs, expected {}", inputs, range_text(def.min_inputs, def.max_inputs)));
  }
  for (int32_t i = 0; i < inputs; ++i) {
    const ValueId id = node.inputs[static_cast<size_t>(i)];
    // The inputs of operators with regions are checked against those of the regions.
    const bool required = (i < def.min_inputs || def.max_inputs < 0) && def.control == Control::none;
    if (id == kNone && required) node_error(node, fmt::format("input {} is left out but required", i));
  }
  const auto wanted = static_cast<int32_t>(outputs);
  if (wanted < def.min_outputs || (def.max_outputs >= 0 && wanted > def.max_outputs)) {
    node_error(node, fmt::format("has {} outputs, expected {}", wanted, range_text(def.min_outputs, def.max_outputs)));
  }
}

void check_operands(const Graph& graph, const Node& node) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId id = node.inputs[i];
    if (id == kNone) continue;
    if (id < 0 || static_cast<size_t>(id) >= graph.value_count())
      fail(ErrorKind::internal, "{}: input {} is value {} of {}", label(node), i, id, graph.value_count());
    if (graph.value(id).dead)
      fail(ErrorKind::internal, "{}: input {} is the dead value '{}'", label(node), i, graph.value(id).name);
  }
}

void check_attrs(const Node& node) {
  const std::vector<AttrSpec>& specs = node.op->attrs;
  for (const auto& [key, attr] : node.attrs) {
    const auto spec = std::find_if(specs.begin(), specs.end(), [&](const AttrSpec& s) { return s.name == key; });
    if (spec == specs.end()) {
      std::vector<std::string_view> legal;
      for (const AttrSpec& s : specs) legal.push_back(s.name);
      node_error(node, fmt::format("unknown attribute '{}'; {}", key,
                                   legal.empty() ? "the operator has none"
                                                 : fmt::format("legal values are {}", fmt::join(legal, ", "))));
    }
    if (spec->type != attr_type(attr)) {
      node_error(node, fmt::format("attribute '{}' has type {}, expected {}", key, attr_type(attr), spec->type));
    }
  }
  for (const AttrSpec& spec : specs) {
    if (spec.fallback == "required" && !node.has_attr(spec.name)) {
      node_error(node, fmt::format("attribute '{}' ({}) is missing but required", spec.name, spec.type));
    }
  }
}

/// Runs f. Adds the node's name to exceptions other than NeedsValue.
template <class F>
auto named(const Node& node, F&& f) {
  try {
    return f();
  } catch (const Error& error) {
    const std::string prefix = label(node);
    if (error.message().starts_with(prefix)) throw;
    throw Error(error.kind(), prefix + ": " + error.message());
  } catch (const std::exception& error) {
    fail(ErrorKind::bad_model, "{}: operands or attributes do not fit together ({})", label(node), error.what());
  }
}

/// Returns the types and constant values of a node's operands; nullptr for omitted or unknown ones.
std::pair<std::vector<const TensorType*>, std::vector<const Tensor*>> operands_of(const Graph& graph,
                                                                                  const Node& node) {
  std::vector<const TensorType*> types;
  std::vector<const Tensor*> values;
  for (ValueId id : node.inputs) {
    types.push_back(id == kNone ? nullptr : &graph.type(id));
    values.push_back(constant_of(graph, id));
  }
  return {std::move(types), std::move(values)};
}

int64_t attr_elems(const Node& node) {
  int64_t most = 0;
  for (const auto& [key, attr] : node.attrs) {
    if (const auto* tensor = std::get_if<Tensor>(&attr)) most = std::max(most, tensor->elems());
  }
  return most;
}

}  // namespace

bool GraphBuilder::fold(const Node& node, const std::vector<std::optional<TensorType>>& types,
                        std::vector<Tensor>& results) {
  const OpDef& def = *node.op;
  if (fold_limit < 0 || !def.deterministic || def.folds_late || def.reference == nullptr) return false;
  bool constant = true;
  for (ValueId id : node.inputs) constant = constant && (id == kNone || constant_of(graph_, id) != nullptr);
  if (!constant && !def.shape_only) return false;
  if (def.family == Family::reshape && constant && !node.inputs.empty() && node.inputs[0] != kNone &&
      types.size() == 1) {
    const Tensor& tensor = *constant_of(graph_, node.inputs[0]);
    if (types[0] && types[0]->dtype == tensor.dtype() && elems(types[0]->shape) == tensor.elems()) {
      results = {tensor.reshaped(types[0]->shape)};
      return true;
    }
  }
  int64_t left = std::max(fold_limit, attr_elems(node));
  std::vector<TensorType> wanted;
  for (const auto& type : types) {
    const int64_t count = type ? elems(type->shape) : 0;
    if (count > left) return false;
    left -= count;
    wanted.push_back(type.value_or(TensorType{}));
  }
  if (!def.shape_only) {
    OpView cost = view(graph_, node);
    cost.outputs = wanted;
    if (!fold_budget->take(cost)) return false;
  }
  std::vector<Tensor> inputs;
  for (ValueId id : node.inputs) {
    if (id == kNone) {
      inputs.emplace_back();
    } else if (const Tensor* known = constant_of(graph_, id)) {
      inputs.push_back(*known);
    } else {
      inputs.emplace_back(graph_.type(id).dtype, graph_.type(id).shape, nullptr, nullptr);
    }
  }
  results = run_reference(node, std::move(inputs), wanted);
  return true;
}

std::vector<ValueId> GraphBuilder::expand_node(const Node& node, const std::vector<std::string>& output_names,
                                               bool by_name) {
  if (depth_ >= kMaxDepth)
    fail(ErrorKind::internal, "{}: expansions are nested deeper than {}", label(node), kMaxDepth);
  const size_t values_before = graph_.value_count();
  const int32_t outer_opset = opset_;
  ExpandContext ctx(*this, node);
  ++depth_;
  opset_ = kNewestOpset;
  std::vector<ValueId> results;
  try {
    results = named(node, [&] { return node.op->expand(ctx); });
  } catch (...) {
    --depth_;
    opset_ = outer_opset;
    throw;
  }
  --depth_;
  opset_ = outer_opset;
  if (results.size() < output_names.size() && node.op->max_outputs < 0)
    node_error(node, fmt::format("has {} outputs, expected at most {}", output_names.size(), results.size()));
  if (results.size() < output_names.size())
    fail(ErrorKind::internal, "{}: its expansion returns {} values, expected {}", label(node), results.size(),
         output_names.size());
  results.resize(output_names.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i] == kNone && (!by_name || !output_names[i].empty())) {
      fail(ErrorKind::unsupported, "{}: output {} is needed, but its expansion does not produce it", label(node), i);
    }
    const std::string& wanted = output_names[i];
    if (wanted.empty() || results[i] == kNone || static_cast<size_t>(results[i]) < values_before) continue;
    const ValueId holder = graph_.find_value(wanted);
    if (holder == results[i]) continue;
    const bool inner = holder != kNone && static_cast<size_t>(holder) >= values_before &&
                       std::find(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(i), holder) ==
                           results.begin() + static_cast<std::ptrdiff_t>(i);
    if (inner) graph_.rename(holder, wanted + "_inner");
    graph_.rename(results[i], wanted);
  }
  return results;
}

namespace {

/// Returns the output types of an operator that is about to be expanded, so that the expansion may rely on the checks
/// of the shape rule. Empty if a shape depends on an operand computed at run time; the expansion reports that if it
/// matters.
std::vector<std::optional<TensorType>> inferred(const Graph& graph, const Node& node, size_t outputs) {
  if (node.op->infer == nullptr) return {};
  auto [types, values] = operands_of(graph, node);
  try {
    return infer(node, std::move(types), std::move(values), outputs);
  } catch (const NeedsValue&) {
    return {};
  }
}

}  // namespace

void check_node(const Node& node) {
  check_counts(node, node.outputs.size());
  check_attrs(node);
}

std::vector<ValueId> GraphBuilder::add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs,
                                       const Options& options) {
  const std::string domain = options.domain == "ai.onnx" ? "" : options.domain;
  std::vector<std::string> output_names = options.output_names;
  if (output_names.empty()) output_names.resize(options.output_count);
  const bool by_name = !options.output_names.empty();

  Node node;
  node.name = options.name;
  if (node.name.empty()) node.name = by_name && !output_names[0].empty() ? output_names[0] : std::string(op);
  node.opset = options.opset != 0 ? options.opset : domain.empty() ? opset_ : 1;
  node.op = find_or_fail(domain, op, node.opset, node.name);
  node.attrs = std::move(attrs);
  while (!inputs.empty() && inputs.back() == kNone) inputs.pop_back();
  node.inputs = std::move(inputs);
  check_counts(node, output_names.size());
  check_operands(graph_, node);
  check_attrs(node);
  if (node.op->run != nullptr || node.op->control != Control::none) {
    throw NeedsProgram(
        fmt::format("{}: {}", label(node),
                    node.op->run != nullptr ? "works on sequences, maps or optional values" : "runs graphs inside it"));
  }
  if (node.op->expand != nullptr && (options.expand || node.op->infer == nullptr)) {
    const auto expected = inferred(graph_, node, output_names.size());
    const std::vector<ValueId> made = expand_node(node, output_names, by_name);
    for (size_t i = 0; i < expected.size(); ++i) {
      if (made[i] != kNone && !same_elements(graph_.type(made[i]), *expected[i]))
        fail(ErrorKind::internal, "{}: its expansion produces output {} of type {}, expected {}", label(node), i,
             text(graph_.type(made[i])), text(*expected[i]));
    }
    return made;
  }

  auto [types, values] = operands_of(graph_, node);
  std::vector<std::optional<TensorType>> result_types;
  try {
    result_types = infer(node, std::move(types), std::move(values), output_names.size());
  } catch (const NeedsValue& needs) {
    throw ShapeNeedsValue{node.inputs.at(static_cast<size_t>(needs.input_index)), label(node)};
  }
  node.outputs.assign(result_types.size(), 0);
  for (size_t i = 0; i < result_types.size(); ++i) {
    if (!by_name || !output_names[i].empty()) continue;
    result_types[i].reset();
    node.outputs[i] = kNone;
  }

  std::vector<Tensor> folded;
  if (named(node, [&] { return fold(node, result_types, folded); })) {
    std::vector<ValueId> results;
    for (size_t i = 0; i < folded.size(); ++i) {
      const std::string& hint = output_names[i].empty() ? node.name : output_names[i];
      results.push_back(folded[i].defined() ? graph_.add_constant(hint, std::move(folded[i])) : kNone);
    }
    return results;
  }
  const NodeId id = graph_.add_node(node.op, std::move(node.name), node.opset, std::move(node.attrs),
                                    std::move(node.inputs), result_types, output_names);
  return graph_.node(id).outputs;
}

namespace {

/// Returns whether a node reshapes a tensor without elements to a known shape that has no -1.
bool reshapes_nothing(const Graph& graph, std::string_view op, const std::vector<ValueId>& inputs) {
  if (op != "Reshape" || inputs.size() != 2 || elems(graph.type(inputs[0]).shape) > 0) return false;
  const Tensor* shape = constant_of(graph, inputs[1]);
  return shape != nullptr && std::ranges::count(shape->ints(), -1) == 0;
}

}  // namespace

/// Expansions and passes ask for shapes that they have computed, in which 0 is a size. Without the attribute, it would
/// stand for the dimension of the operand.
ValueId GraphBuilder::add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs, std::string name) {
  if (reshapes_nothing(graph_, op, inputs)) attrs.emplace("allowzero", int64_t{1});
  Options options;
  options.name = std::move(name);
  return add(op, std::move(inputs), std::move(attrs), options).at(0);
}

ValueId GraphBuilder::constant(Tensor tensor, std::string name) {
  return graph_.add_constant(std::move(name), std::move(tensor));
}

ValueId GraphBuilder::list(std::span<const int64_t> values, std::string name) {
  return constant(Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, values), std::move(name));
}

ValueId GraphBuilder::add_kilter(std::string_view op, std::vector<ValueId> inputs, Attrs attrs, std::string name) {
  Options options;
  options.name = std::move(name);
  options.domain = "kilter";
  return add(op, std::move(inputs), std::move(attrs), options).front();
}

ValueId ExpandContext::scalar(DType type, double value) {
  Tensor tensor(type, {});
  const bool number = visit_dtype(type, [&]<class T>(T) { *tensor.data<T>() = convert<T>(value); });
  if (!number) node_error(node, fmt::format("has operands of element type {}, expected numbers", kilter::name(type)));
  return builder.constant(std::move(tensor), node.name);
}

OpView view(const Graph& graph, const Node& node) {
  OpView out{node, {}, {}, {}, {}};
  for (ValueId id : node.inputs) {
    out.inputs.push_back(id == kNone ? TensorType{} : graph.type(id));
    out.present.push_back(id != kNone);
    out.values.push_back(constant_of(graph, id));
  }
  for (ValueId id : node.outputs) out.outputs.push_back(id == kNone ? TensorType{} : graph.type(id));
  return out;
}

std::vector<Tensor> run_reference(const Node& node, std::vector<Tensor> inputs,
                                  const std::vector<TensorType>& output_types) {
  if (node.op->reference == nullptr) fail(ErrorKind::unsupported, "{}: has no reference kernel", label(node));
  ReferenceContext ctx{node, std::move(inputs), {}};
  bool any = false;
  for (size_t i = 0; i < output_types.size(); ++i) {
    const bool wanted = i >= node.outputs.size() || node.outputs[i] != kNone;
    ctx.outputs.push_back(wanted ? Tensor(output_types[i].dtype, output_types[i].shape) : Tensor());
    any = any || (wanted && ctx.outputs.back().elems() > 0);
  }
  // There is nothing to compute, and the other dimensions of an empty tensor may be too large for lists of their
  // indices.
  if (!any) return std::move(ctx.outputs);
  named(node, [&] {
    node.op->reference(ctx);
    return 0;
  });
  return std::move(ctx.outputs);
}

std::vector<std::optional<TensorType>> infer(const Node& node, std::vector<const TensorType*> types,
                                             std::vector<const Tensor*> values, size_t outputs) {
  if (node.op->infer == nullptr) fail(ErrorKind::internal, "{}: has no shape rule; it must be expanded", label(node));
  InferContext ctx(node, std::move(types), std::move(values), outputs);
  return named(node, [&] {
    node.op->infer(ctx);
    for (size_t i = 0; i < ctx.outputs.size(); ++i) {
      require(ctx.outputs[i].has_value(), "the shape rule does not set output {}", i);
      elems(ctx.outputs[i]->shape);
    }
    return std::move(ctx.outputs);
  });
}

void verify_types(const Graph& graph) {
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op->infer == nullptr) continue;
    const auto [types, values] = operands_of(graph, node);
    std::vector<std::optional<TensorType>> inferred;
    try {
      inferred = infer(node, types, values, node.outputs.size());
    } catch (const NeedsValue&) {
      continue;
    }
    for (size_t i = 0; i < inferred.size(); ++i) {
      if (node.outputs[i] == kNone) continue;
      const Value& output = graph.value(node.outputs[i]);
      const bool same = output.type.dtype == inferred[i]->dtype && output.type.shape == inferred[i]->shape;
      if (!same)
        fail(ErrorKind::internal, "graph '{}' is invalid: {}: output {}, '{}', has type {}, but its operands give {}",
             graph.name, label(node), i, output.name, text(output.type), text(*inferred[i]));
    }
  }
}

std::optional<Shape> broadcast_shapes(std::span<const Shape> shapes) {
  size_t rank = 0;
  for (const Shape& shape : shapes) rank = std::max(rank, shape.size());
  Shape out(rank, 1);
  for (const Shape& shape : shapes) {
    const size_t lead = rank - shape.size();
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == 1) continue;
      if (out[lead + d] != 1 && out[lead + d] != shape[d]) return std::nullopt;
      out[lead + d] = shape[d];
    }
  }
  return out;
}

int64_t normal_axis(const Node& node, int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) {
    node_error(node, fmt::format("axis {} is out of range for rank {}; legal values are {} to {}", axis, rank, -rank,
                                 rank - 1));
  }
  return axis < 0 ? axis + rank : axis;
}

}  // namespace kilter
