// Writes the program of a session to a compiled file.

#include <algorithm>
#include <set>

#include "base/error.h"
#include "compile/session.h"
#include "exec/plan_file.h"
#include "ops/support/builder.h"
#include "vm/type_flow.h"

namespace kilter {
namespace {

vm::FilePort file_port(const onnx::Port& port, const onnx::Model::Shapes& shapes) {
  vm::FilePort made{port.name, port.kind, port.of_sequence, port.type, {}, port.key};
  if (const auto given = shapes.find(port.name); given != shapes.end()) {
    made.dims = given->second;
  } else if (port.dims) {
    made.dims.emplace();
    for (const onnx::Dim& d : *port.dims) made.dims->push_back(d.size.value_or(-1));
  }
  return made;
}

/// Returns "Conv 'conv1' and 11 more nodes".
std::string name_of(const OpenGraph& segment) {
  if (segment.nodes.empty()) return "no nodes";
  const size_t more = segment.nodes.size() - 1;
  if (more == 0) return segment.nodes[0].label;
  return fmt::format("{} and {} more node{}", segment.nodes[0].label, more, more == 1 ? "" : "s");
}

/// The types of the inputs of a segment.
using Types = std::vector<TensorType>;

bool fits(const Plan& plan, const Types& types) {
  return std::ranges::equal(plan.inputs, types, [](const PlanTensor& tensor, const TensorType& type) {
    return tensor.type == type.dtype && tensor.shape == type.shape;
  });
}

/// Adds the plans of all segments, for the types that follow from those of the network's inputs and for those that have
/// been compiled. A segment that cannot have other types needs no graph.
void add_segments(ProgramRunner& runner, const std::vector<vm::KnownType>& inputs, vm::ProgramFile& file, bool& tuned) {
  std::vector<std::vector<Types>> needed(file.program.segments.size());
  const std::vector<bool> closed =
      vm::follow_types(file.program, inputs, [&](int32_t segment, const std::vector<TensorType>& types) {
        needed[static_cast<size_t>(segment)].push_back(types);
        return runner.prepare(segment, types);
      });
  for (size_t s = 0; s < closed.size(); ++s) {
    vm::FileSegment& segment = file.segments.emplace_back();
    segment.name = name_of(file.program.segments[s]);
    segment.plans = runner.own_plans(s, tuned);
    for (Plan& plan : segment.plans) plan.model = file.model;
    const bool complete = std::ranges::all_of(needed[s], [&](const Types& types) {
      return std::ranges::any_of(segment.plans, [&](const Plan& plan) { return fits(plan, types); });
    });
    segment.has_graph = !closed[s] || !complete;
    if (!segment.plans.empty()) file.records = segment.plans.front().records;
  }
}

}  // namespace

void Session::save(const std::string& file) {
  if (saves_program()) {
    save_program(file);
  } else {
    save_plan(compile().own_plan(), file);
  }
}

bool Session::saves_program() {
  if (needs_program_) return true;
  try {
    const bool plain =
        std::ranges::all_of(inputs(), &onnx::Port::plain) && std::ranges::all_of(outputs(), &onnx::Port::plain);
    needs_program_ = !plain;
    if (model_ && plain && !model_->value_inputs(merged({})).empty()) return true;
    if (plain) compile();
  } catch (const NeedsProgram&) {
    needs_program_ = true;
  }
  return needs_program_;
}

Session::SavedProgram Session::save_program(const std::string& file) {
  ProgramRunner& runner = program();
  const onnx::Model::Shapes shapes = whole({});
  std::vector<onnx::Port> declared = inputs();
  for (const onnx::Port& p : default_inputs()) {
    if (program_inputs_.contains(p.name)) declared.push_back(p);
  }
  if (const std::string open = onnx::open_inputs_text(declared, shapes);
      !open.empty() && !runner.has_run() && !runner.program().segments.empty())
    fail(ErrorKind::bad_input, "{}: {}", name_, open);
  vm::ProgramFile made;
  made.model = name_;
  made.target = options_.compile.target.name;
  made.precision = kilter::name(options_.compile.precision);
  made.program = runner.program();
  std::vector<vm::KnownType> types;
  const OpenGraph& graph = *made.program.graph;
  for (const ValueId v : graph.inputs) {
    const OpenValue& value = graph.values[static_cast<size_t>(v)];
    types.emplace_back();
    if (value.constant) continue;
    const auto at = std::ranges::find(declared, value.name, &onnx::Port::name);
    require(at != declared.end(), "{}: input '{}' of the program is none of the network", name_, value.name);
    made.inputs.push_back(file_port(*at, shapes));
    if (made.inputs.back().is_fixed() && shapes.contains(value.name))
      types.back() = TensorType{at->type, *made.inputs.back().dims, {}};
  }
  for (const onnx::Port& p : outputs()) made.outputs.push_back(file_port(p, {}));
  bool tuned = false;
  add_segments(runner, types, made, tuned);
  if (tuned) made.compiled_for = pool_->threads();
  vm::save_program(made, file);
  SavedProgram saved{made.program.functions.size(), made.segments.size(), 0};
  for (const vm::FileSegment& segment : made.segments) saved.plans += segment.plans.size();
  return saved;
}

}  // namespace kilter
