#include "onnx/bind.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "onnx/bind_inputs.h"
#include "onnx/data_need.h"
#include "onnx/missing.h"

namespace kilter::onnx {
namespace {

MissingOps find_missing(const ModelData& model, bool branches) {
  MissingOps missing(model.file);
  for (const Missing& port : model.odd_ports) missing.add(port);
  missing.look(*model.open_graph(), branches);
  return missing;
}

}  // namespace

std::set<std::string> Binder::given_defaults() const {
  std::set<std::string> given;
  for (const Port& port : model_.default_inputs) {
    if (shapes_.contains(port.name) || values_.contains(port.name)) given.insert(port.name);
  }
  return given;
}

Specialiser Binder::specialise() {
  find_missing(model_, false).fail_if_any();
  for (const auto* ports : {&model_.inputs, &model_.outputs}) {
    for (const Port& port : *ports) {
      if (!port.is_tensor())
        throw NeedsProgram(fmt::format("{}: {} is not a tensor: {}", model_.file, quote(port.name), text(port)));
    }
  }
  graph_.name = model_.graph().name();
  Specialiser specialiser(*open_, graph_, model_.file, mode_);
  add_inputs(specialiser);
  specialiser.walk();
  return specialiser;
}

Graph Binder::finished(Specialiser& from) {
  add_outputs(from);
  graph_.remove_dead();
  verify(graph_);
  return std::move(graph_);
}

Graph Binder::run() {
  Specialiser specialiser = specialise();
  return finished(specialiser);
}

Model::Bound Binder::try_run() {
  Specialiser specialiser = specialise();
  if (specialiser.needed().empty()) return {finished(specialiser), {}};
  return {{}, {specialiser.needed().begin(), specialiser.needed().end()}};
}

/// Returns whether an input is small enough for shapes to depend on its value (DataNeed), or is not a tensor.
bool Binder::any_small_input() const {
  if (!std::ranges::all_of(model_.inputs, [](const Port& port) { return port.is_tensor(); })) return true;
  const std::vector<BoundInput> inputs = bind_inputs(model_, shapes_, values_);
  return std::ranges::any_of(inputs, [](const BoundInput& input) {
    return input.value == nullptr && elems(input.shape) <= (is_float(input.port->type) ? kMostFloatElems : kMostElems);
  });
}

std::vector<std::string> Binder::needed_inputs() {
  if (!any_small_input()) return {};
  const Specialiser specialiser = specialise();
  return {specialiser.needed().begin(), specialiser.needed().end()};
}

void Binder::add_inputs(Specialiser& to) {
  std::map<std::string_view, ValueId> open;
  const OpenGraph& graph = *open_;
  for (const ValueId id : graph.inputs) open.emplace(graph.values[static_cast<size_t>(id)].name, id);
  for (const BoundInput& input : bind_inputs(model_, shapes_, values_)) {
    const std::string& name = input.port->name;
    to.set(open.at(name), input.value != nullptr ? graph_.add_constant(name, *input.value)
                                                 : graph_.add_input(name, {input.port->type, input.shape, {}}));
  }
}

/// The declared shapes of outputs are ignored: they are often wrong in real models, because the exporter traced the
/// model with other inputs.
void Binder::check_output(const Port& port, const TensorType& type) const {
  if (port.type == type.dtype) return;
  fail(ErrorKind::bad_model,
       "{}: output {}: declared {}, but its nodes produce {}; correct the declaration in the model", model_.file,
       quote(port.name), text(port), text(type));
}

void Binder::add_outputs(Specialiser& from) {
  const OpenGraph& graph = *open_;
  for (size_t i = 0; i < model_.outputs.size(); ++i) {
    const Port& port = model_.outputs[i];
    const ValueId id = from.value(graph.outputs[i].value);
    if (id == kNone) {
      fail(ErrorKind::bad_model, "{}: output {} is an input that a function call leaves out", model_.file,
           quote(port.name));
    }
    check_output(port, graph_.type(id));
    graph_.add_output(id, port.name);
  }
}

std::vector<Missing> Model::missing() const { return find_missing(*impl_, true).list(); }

void Model::fail_if_missing() const { find_missing(*impl_, false).fail_if_any(); }

Graph Model::bind(const Shapes& shapes, const Values& values) const {
  return Binder(*impl_, shapes, values, Specialiser::Mode::bind).run();
}

Model::Bound Model::try_bind(const Shapes& shapes, const Values& values) const {
  return Binder(*impl_, shapes, values, Specialiser::Mode::probe).try_run();
}

std::vector<std::string> Model::value_inputs(const Shapes& shapes, const Values& values) const {
  return Binder(*impl_, shapes, values, Specialiser::Mode::probe).needed_inputs();
}

}  // namespace kilter::onnx
