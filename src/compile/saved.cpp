// Reads and writes the compiled files of a session.

#include <algorithm>
#include <set>

#include "base/error.h"
#include "compile/session.h"
#include "ops/support/builder.h"
#include "vm/type_flow.h"

namespace kilter {
namespace {

vm::FilePort file_port(const onnx::Port& port, const onnx::Model::Shapes& shapes) {
  vm::FilePort made{port.name, port.kind, port.of_sequence, port.type, {}, {}, port.key};
  if (const auto given = shapes.find(port.name); given != shapes.end()) {
    made.dims = given->second;
  } else if (port.dims) {
    made.dims.emplace();
    for (const onnx::Dim& d : *port.dims) {
      made.dims->push_back(d.size.value_or(-1));
      made.symbols.push_back(d.size ? std::string() : d.symbol);
    }
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

/// The plans that the segments of a program need.
struct Needed {
  std::vector<std::vector<Types>> types;  ///< by segment
  std::vector<bool> closed;               ///< by segment: it never runs with any other types
};

/// Compiles all segments for the types that follow from those of the network's inputs.
void follow(ProgramRunner& runner, const std::vector<vm::KnownType>& inputs, Needed& needed) {
  const std::vector<bool> closed =
      vm::follow_types(runner.program(), inputs, [&](int32_t segment, const std::vector<TensorType>& types) {
        needed.types[static_cast<size_t>(segment)].push_back(types);
        return runner.prepare(segment, types);
      });
  for (size_t s = 0; s < closed.size(); ++s) needed.closed[s] = needed.closed[s] && closed[s];
}

/// Adds the plans of all segments: those needed, and those that earlier runs compiled. A segment that runs with no
/// other types does not need a graph.
void add_segments(const ProgramRunner& runner, const Needed& needed, vm::ProgramFile& file, bool& tuned) {
  for (size_t s = 0; s < needed.closed.size(); ++s) {
    vm::FileSegment& segment = file.segments.emplace_back();
    segment.name = name_of(file.program.segments[s]);
    segment.plans = runner.plans_of(s, tuned);
    for (Plan& plan : segment.plans) plan.model = file.model;
    const bool complete = std::ranges::all_of(needed.types[s], [&](const Types& types) {
      return std::ranges::any_of(segment.plans, [&](const Plan& plan) { return fits(plan, types); });
    });
    segment.has_graph = !needed.closed[s] || !complete;
    if (!segment.plans.empty()) file.records = segment.plans.front().records;
  }
}

/// A program of one segment, which has the interface of the plan and no nodes.
vm::Program whole_network(const Plan& plan) {
  auto graph = std::make_shared<OpenGraph>();
  graph->name = plan.model;
  const auto add = [&](const PlanTensor& tensor) {
    graph->values.push_back({tensor.name, std::nullopt});
    return static_cast<ValueId>(graph->values.size() - 1);
  };
  vm::Instr instr{.segment = 0};
  for (const PlanTensor& input : plan.inputs) instr.inputs.push_back(add(input));
  for (const PlanTensor& output : plan.outputs) {
    instr.outputs.push_back(add(output));
    graph->outputs.push_back({output.name, instr.outputs.back(), {DeclaredType::Kind::tensor, output.type, {}}});
  }
  instr.dead = graph->inputs = instr.inputs;
  graph->own_inputs = graph->inputs.size();
  vm::Program program{graph, {}, {*graph}};
  program.functions.push_back({graph.get(), {std::move(instr)}, {}});
  return program;
}

}  // namespace

void Session::take(vm::CompiledFile file) {
  file_targets_ = std::move(file.targets), file_target_ = file.chosen;
  if (Plan* plan = std::get_if<Plan>(&file.content)) {
    plans_.emplace_front().loaded.compiled.plan = std::move(*plan);
    return;
  }
  file_program_ = std::make_shared<vm::FileProgram>(std::move(std::get<vm::ProgramFile>(file.content)));
  file_runner_ = std::make_unique<vm::FileRunner>(file_program_, pool_, options_.interrupt);
  needs_program_ = true;
}

vm::FileSize Session::file_size() const {
  return options_.compile.contents.recipes ? vm::FileSize::small : vm::FileSize::fast;
}

void Session::save(const FileSink& file) {
  const Saved made = saved();
  if (file_size() == vm::FileSize::fast) return vm::save_compiled(made.content, file);
  vm::save_targets(std::span(&made.content, 1), file, vm::FileSize::small);
}

Session::Saved Session::saved() {
  return saves_program() ? saved_program() : saves_shapes() ? saved_shapes_program() : saved_plan();
}

Session::Saved Session::saved_plan() {
  Loaded& loaded = compile();
  if (loaded.compiled.records_tuned_at > 0) loaded.compiled.plan.compiled_for = pool_->threads();
  return {loaded.own_plan(), {loaded.compiled.home}};
}

aot::Library Session::save_library(aot::Form form, const std::filesystem::path& path,
                                   const aot::LibraryOptions& options) {
  if (saves_shapes()) {
    fail(ErrorKind::unsupported,
         "'{}': a library has the code for one shape of each input, but --shapes declares {}; give one shape with "
         "--input, or write a compiled file",
         name(), options_.ranges.count());
  }
  if (saves_program()) {
    fail(ErrorKind::unsupported,
         "'{}' has control flow, sequences, strings or shapes that depend on data; a library cannot contain these: "
         "write a compiled file, and load it with libkilter_runtime (doc/install.md)",
         name());
  }
  return aot::write_library(std::get<Plan>(saved_plan().content), form, path, options);
}

bool Session::saves_program() {
  if (needs_program_) return true;
  try {
    const bool plain =
        std::ranges::all_of(inputs(), &onnx::Port::plain) && std::ranges::all_of(outputs(), &onnx::Port::plain);
    needs_program_ = !plain;
    const onnx::Model::Shapes first = example_shapes();
    if (model_ && plain && !model_->value_inputs(merged(first)).empty()) return true;
    if (plain) compile(first);
  } catch (const NeedsProgram&) {
    needs_program_ = true;
  }
  return needs_program_;
}

Session::Saved Session::saved_program() {
  ProgramRunner& runner = program();
  const std::vector<onnx::Model::Shapes> all = saved_shapes();
  const onnx::Model::Shapes fixed = all.size() > 1 ? onnx::Model::Shapes() : whole(all.front());
  std::vector<onnx::Port> declared = inputs();
  for (const onnx::Port& p : default_inputs()) {
    if (program_inputs_.contains(p.name)) declared.push_back(p);
  }
  if (!runner.has_run() && !runner.program().segments.empty()) check_known(declared);
  vm::ProgramFile made;
  made.model = name_;
  made.ranges = options_.ranges;
  made.target = options_.compile.target.name;
  made.precision = kilter::name(options_.compile.precision);
  made.program = runner.program();
  const OpenGraph& graph = *made.program.graph;
  for (const ValueId v : graph.inputs) {
    const OpenValue& value = graph.values[static_cast<size_t>(v)];
    if (value.constant) continue;
    const auto at = std::ranges::find(declared, value.name, &onnx::Port::name);
    require(at != declared.end(), "{}: input '{}' of the program is not an input of the network", name_, value.name);
    made.inputs.push_back(file_port(*at, fixed));
  }
  for (const onnx::Port& p : outputs()) made.outputs.push_back(file_port(p, {}));
  const size_t segments = made.program.segments.size();
  Needed needed{std::vector<std::vector<Types>>(segments), std::vector<bool>(segments, true)};
  for_each_shape(all, [&](const onnx::Model::Shapes& one) { follow(runner, known_types(whole(one)), needed); });
  bool tuned = false;
  add_segments(runner, needed, made, tuned);
  if (tuned) made.compiled_for = pool_->threads();
  return {std::move(made), {}};
}

Session::Saved Session::saved_shapes_program() {
  const std::vector<onnx::Model::Shapes> shapes = saved_shapes();
  check_known(inputs());
  vm::ProgramFile made;
  made.model = name_;
  made.ranges = options_.ranges;
  made.precision = kilter::name(options_.compile.precision);
  vm::FileSegment& segment = made.segments.emplace_back();
  segment.name = "the whole network";
  std::vector<std::shared_ptr<const ConstantsHome>> kept;  // constants of plans, which the session may drop
  bool tuned = false;
  for_each_shape(shapes, [&](const onnx::Model::Shapes& one) {
    const Loaded& loaded = compile(one);
    segment.plans.push_back(loaded.plan());
    kept.push_back(loaded.compiled.home);
    tuned |= loaded.compiled.records_tuned_at > 0;
  });
  const Plan& first = segment.plans.front();
  made.target = first.target;
  made.records = first.records;
  if (tuned) made.compiled_for = pool_->threads();
  made.program = whole_network(first);
  const auto add_ports = [](const std::vector<PlanTensor>& tensors, const std::vector<onnx::Port>& declared,
                            std::vector<vm::FilePort>& ports) {
    for (const PlanTensor& tensor : tensors) {
      const auto port = std::ranges::find(declared, tensor.name, &onnx::Port::name);
      require(port != declared.end(), "'{}' of the plan is not a port of the network", tensor.name);
      ports.push_back(file_port(*port, {}));
    }
  };
  add_ports(first.inputs, declared_inputs(), made.inputs);
  add_ports(first.outputs, outputs(), made.outputs);
  return {std::move(made), std::move(kept)};
}

}  // namespace kilter
