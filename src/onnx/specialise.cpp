#include "onnx/specialise.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "onnx/data_need.h"
#include "onnx/missing.h"
#include "onnx/schema.h"
#include "ops/support/flex_attention.h"

namespace kilter::onnx {
namespace {

/// Stands for a value that has not been created yet.
constexpr ValueId kNotYet = -2;
/// Stands for a value that Mode::probe cannot compute because an input's value is not known.
constexpr ValueId kUnknown = -3;
/// Thrown when a part of a node is kUnknown.
struct Unknown {};

/// Runs f, which adds a node. Errors get the name of the file.
template <class F>
std::vector<ValueId> in_file(const std::string& file, const OpenNode& node, F&& f) {
  try {
    return f();
  } catch (const NeedsProgram& error) {
    throw NeedsProgram(file + ": " + error.why());
  } catch (const Error& error) {
    if (error.message().starts_with(file)) throw;
    throw Error(error.kind(), file + ": " + error.message());
  } catch (const std::bad_alloc&) {
    fail(ErrorKind::out_of_memory, "{}: {}: out of memory while it was added to the graph", file, node.label);
  }
}

}  // namespace

Specialiser::Specialiser(const OpenGraph& open, Graph& graph, const std::string& file, Mode mode)
    : open_(open),
      graph_(graph),
      file_(file),
      mode_(mode),
      values_(open.values.size(), kNotYet),
      builder_(std::make_shared<GraphBuilder>(graph)) {}

void Specialiser::walk() {
  for (const OpenNode& node : open_.nodes) visit(node);
}

bool Specialiser::walk_from(std::span<const TensorType> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueId open = open_.inputs[i];
    set(open, graph_.add_input(open_.values[static_cast<size_t>(open)].name, inputs[i]));
  }
  try {
    walk();
  } catch (const NeedsProgram&) {
    return false;
  }
  return true;
}

ValueId Specialiser::value(ValueId open) {
  if (open == kNone) return kNone;
  ValueId& known = values_.at(static_cast<size_t>(open));
  if (known != kNotYet) return known;
  const OpenValue& value = open_.values[static_cast<size_t>(open)];
  if (!value.constant) fail(ErrorKind::internal, "{}: {} is read before it is created", file_, quote(value.name));
  return known = graph_.add_constant(value.name, *value.constant);
}

void Specialiser::visit(const OpenNode& node) {
  std::vector<ValueId> inputs;
  for (const ValueId input : node.inputs) inputs.push_back(value(input));
  std::vector<ValueId> outputs;
  if (std::find(inputs.begin(), inputs.end(), kUnknown) == inputs.end()) {
    try {
      outputs = make(node, inputs);
    } catch (const ShapeNeedsValue& need) {
      need_value(need.value, fmt::format("the shape of an output of {}", need.node));
    }
  }
  outputs.resize(node.outputs.size(), kUnknown);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (node.outputs[i] != kNone) set(node.outputs[i], outputs[i]);
  }
}

std::vector<ValueId> Specialiser::make(const OpenNode& node, const std::vector<ValueId>& inputs) {
  if (is_if(node)) {
    if (inputs.size() != 1 || inputs[0] == kNone) {
      fail(ErrorKind::bad_model, "{}: {}: expected one input, the condition, got {}", file_, node.label, inputs.size());
    }
    return choose(node, inputs[0]);
  }
  if (node.op != nullptr && (node.region("score_mod") != nullptr || node.region("prob_mod") != nullptr))
    return attend(node, inputs);
  const bool is_alias = node.op != nullptr && node.op->name == "Identity" && node.op->domain.empty();
  if (is_alias && inputs.size() == 1 && inputs[0] != kNone && node.outputs.size() == 1 &&
      graph_.value(inputs[0]).constant)
    return inputs;
  return add(node, inputs);
}

std::vector<ValueId> Specialiser::add(const OpenNode& node, const std::vector<ValueId>& inputs) {
  if (node.op == nullptr) MissingOps(file_).fail_for(node);
  GraphBuilder::Options options;
  options.name = node.name;
  options.domain = node.op->domain;
  options.opset = node.opset;
  for (const ValueId output : node.outputs)
    options.output_names.push_back(output == kNone ? "" : open_.values[static_cast<size_t>(output)].name);
  return in_file(file_, node, [&] { return builder_->add(node.op->name, inputs, node.attrs, options); });
}

std::vector<ValueId> Specialiser::choose(const OpenNode& node, ValueId condition) {
  const auto& known = graph_.value(condition).constant;
  if (!known) {
    need_value(condition, fmt::format("which branch of {} runs", node.label));
    return {};
  }
  if (known->dtype() != DType::boolean || known->elems() != 1) {
    fail(ErrorKind::bad_model, "{}: {}: expected one bool as condition, got {}", file_, node.label,
         text(graph_.type(condition)));
  }
  const std::string wanted = *known->data<bool>() ? "then_branch" : "else_branch";
  const Region* branch = node.region(wanted);
  if (branch == nullptr || branch->graph->own_inputs > 0 || branch->graph->outputs.size() != node.outputs.size()) {
    fail(ErrorKind::bad_model, "{}: {}: expected a graph without inputs and with {} outputs as its {}, got {}", file_,
         node.label, node.outputs.size(), wanted,
         branch == nullptr
             ? "none"
             : fmt::format("{} inputs and {} outputs", branch->graph->own_inputs, branch->graph->outputs.size()));
  }
  MissingOps missing(file_);
  missing.look(*branch->graph, false);
  missing.fail_if_any();
  return inlined(*branch, {});
}

std::vector<ValueId> Specialiser::inlined(const Region& region, const std::vector<ValueId>& own_inputs) {
  Specialiser inner(*region.graph, graph_, file_, mode_);
  inner.builder_ = builder_;
  inner.needed_ = needed_;
  for (size_t i = 0; i < own_inputs.size(); ++i) inner.set(region.graph->inputs[i], own_inputs[i]);
  for (size_t i = 0; i < region.captures.size(); ++i)
    inner.set(region.graph->inputs[region.graph->own_inputs + i], value(region.captures[i]));
  inner.walk();
  std::vector<ValueId> outputs;
  for (const OpenGraph::Output& output : region.graph->outputs) outputs.push_back(inner.value(output.value));
  return outputs;
}

std::vector<ValueId> Specialiser::attend(const OpenNode& node, const std::vector<ValueId>& inputs) {
  const auto modifier = [&](std::string_view attribute) -> Modifier {
    const Region* region = node.region(attribute);
    if (region == nullptr) return {};
    if (region->graph->own_inputs != 1 || region->graph->outputs.size() != 1) {
      fail(ErrorKind::bad_model, "{}: {}: expected a graph with one input and one output as its {}, got {} and {}",
           file_, node.label, attribute, region->graph->own_inputs, region->graph->outputs.size());
    }
    return [this, region](ValueId x) {
      const ValueId made = inlined(*region, {x})[0];
      if (made == kUnknown) throw Unknown{};
      return made;
    };
  };
  if (inputs.size() != 3 || std::find(inputs.begin(), inputs.end(), kNone) != inputs.end())
    fail(ErrorKind::bad_model, "{}: {}: expected three inputs", file_, node.label);
  try {
    return in_file(file_, node, [&] {
      const std::array<ValueId, 3> operands = {inputs[0], inputs[1], inputs[2]};
      const ValueId y = add_modified_attention(*builder_, node, operands, modifier("score_mod"), modifier("prob_mod"));
      return std::vector<ValueId>{y};
    });
  } catch (const Unknown&) {
    return {};
  }
}

void Specialiser::need_value(ValueId value, const std::string& what) {
  const DataNeed need = trace_need(graph_, value);
  std::vector<std::string> names;
  for (const ValueId input : need.inputs) names.push_back(graph_.value(input).name);
  if (mode_ == Mode::probe && need.known_by_inputs) {
    needed_->insert(names.begin(), names.end());
    return;
  }
  const std::string& value_name = graph_.value(value).name;
  if (!need.known_by_inputs || mode_ == Mode::segment) {
    throw NeedsProgram(fmt::format("{}: {} depends on data that are known only while the model runs, the value {}: {}",
                                   file_, what, quote(value_name), need.obstacle));
  }
  std::vector<std::string> options;
  for (const auto& name : names) options.push_back("--input " + shell_word(name + "=FILE.npy"));
  fail(ErrorKind::unsupported, "{}: {} depends on the value {}, which is computed from inputs: give their values, `{}`",
       file_, what, quote(value_name), fmt::join(options, " "));
}

}  // namespace kilter::onnx
