#include "compile/state.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <type_traits>
#include <utility>

namespace kilter {
namespace {

const onnx::Port* find(const std::vector<onnx::Port>& ports, const std::string& name) {
  const auto place = std::ranges::find(ports, name, &onnx::Port::name);
  return place == ports.end() ? nullptr : &*place;
}

std::vector<onnx::Port> all_inputs(const Session& session) {
  std::vector<onnx::Port> ports = session.inputs();
  const std::vector<onnx::Port> defaults = session.default_inputs();
  ports.insert(ports.end(), defaults.begin(), defaults.end());
  return ports;
}

std::string names_of(const std::vector<onnx::Port>& ports) {
  std::vector<std::string> names;
  for (const onnx::Port& port : ports) names.push_back(port.name);
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

std::string declarations_of(const std::vector<onnx::Port>& ports) {
  std::vector<std::string> texts;
  for (const onnx::Port& port : ports) texts.push_back(fmt::format("{} ({})", port.name, onnx::text(port)));
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ", "));
}

[[noreturn]] void fail_without_pairs(const Session& session) {
  const std::vector<onnx::Port> inputs = session.inputs(), outputs = session.outputs();
  std::string example = "INPUT: OUTPUT";
  for (const onnx::Port& input : inputs) {
    const auto place =
        std::ranges::find_if(outputs, [&](const onnx::Port& output) { return state_mismatch(input, output).empty(); });
    if (place == outputs.end()) continue;
    example = fmt::format("\"{}\": \"{}\"", input.name, place->name);
    break;
  }
  fail(ErrorKind::usage,
       "{}: bind_state: no output is known to be the next value of an input; inputs are {}; outputs are {}; name the "
       "pairs, such as {{{}}}",
       session.name(), declarations_of(inputs), declarations_of(outputs), example);
}

const Tensor& tensor_in(const Tensor& tensor) { return tensor; }
const Tensor& tensor_in(const AnyValue& value) { return value.tensor(); }

AnyValue clone(const AnyValue& value) {
  if (value.is_tensor()) return value.tensor().clone();
  if (!value.is_sequence()) return {};
  std::vector<AnyValue> elements;
  for (const AnyValue& element : value.elements()) elements.push_back(clone(element));
  return AnyValue::sequence(std::move(elements));
}

/// Whether an input may have this value.
bool can_be(const onnx::Port& input, const AnyValue& value) {
  return onnx::fits(input, value) && (!value.is_tensor() || onnx::fits(input, value.tensor().shape()));
}

/// For each dimension of a state input, whether the output bound to it declares a different name or size.
std::vector<bool> growing_dims(const onnx::Port& input, const onnx::Port& output) {
  if (!input.dims) return {};
  std::vector<bool> grows(input.dims->size(), false);
  if (!output.dims || output.dims->size() != input.dims->size()) return grows;
  for (size_t i = 0; i < grows.size(); ++i) {
    const onnx::Dim &in = (*input.dims)[i], &out = (*output.dims)[i];
    grows[i] = in.symbol != out.symbol || in.size != out.size;
  }
  return grows;
}

std::optional<Tensor> default_value(const OpenGraph* graph, const std::string& input) {
  if (graph == nullptr) return std::nullopt;
  const auto place = std::ranges::find(graph->values, input, &OpenValue::name);
  return place == graph->values.end() ? std::nullopt : place->constant;
}

}  // namespace

State::State(Session& session, StatePairs pairs, const Values& initial) : session_(&session), pairs_(std::move(pairs)) {
  if (pairs_.empty()) pairs_ = find_state_pairs(session_->inputs(), session_->outputs(), session_->open_graph().get());
  if (pairs_.empty()) fail_without_pairs(*session_);
  bind();
  initial_ = checked_copies(initial, "the initial value");
  reset();
  for (const Bound& bound : bound_) {
    if (values_.contains(bound.input.name)) continue;
    if (const std::string why = why_unknown(bound, sizes_of(values_), false); !why.empty())
      fail_without_value(bound, why);
  }
}

void State::bind() {
  std::set<std::string> bound_outputs;
  for (const auto& [input, output] : pairs_) {
    bound_.push_back(bound_of(input, output));
    bound_outputs.insert(output);
  }
  for (const onnx::Port& port : session_->inputs()) {
    if (!pairs_.contains(port.name)) inputs_.push_back(port);
  }
  for (size_t i = 0; const onnx::Port& port : session_->outputs()) {
    if (!bound_outputs.contains(port.name)) outputs_.push_back(port), free_outputs_.push_back(i);
    ++i;
  }
}

State::Bound State::bound_of(const std::string& input, const std::string& output) const {
  const std::vector<onnx::Port> inputs = all_inputs(*session_), outputs = session_->outputs();
  const onnx::Port *in = find(inputs, input), *out = find(outputs, output);
  if (in == nullptr)
    fail(ErrorKind::usage, "{}: bind_state: no input '{}'; legal values are {}", session_->name(), input,
         names_of(inputs));
  if (out == nullptr)
    fail(ErrorKind::usage,
         "{}: bind_state: no output '{}', which is to be the next value of input '{}'; legal values are {}",
         session_->name(), output, input, names_of(outputs));
  if (const std::string why = state_mismatch(*in, *out); !why.empty()) {
    fail(ErrorKind::bad_input, "{}: output '{}' ({}) cannot be the next value of input '{}' ({}): {}", session_->name(),
         output, onnx::text(*out), input, onnx::text(*in), why);
  }
  const auto graph = session_->open_graph();
  Bound bound{*in, static_cast<size_t>(out - outputs.data()), std::nullopt, growing_dims(*in, *out), std::nullopt};
  if (graph != nullptr)
    bound.axis = appended_axis(*graph, *in, output), bound.fallback = default_value(graph.get(), input);
  return bound;
}

State::Values State::checked_copies(const Values& values, std::string_view what) const {
  Values copies;
  for (const auto& [name, value] : values) {
    const auto place = std::ranges::find_if(bound_, [&](const Bound& bound) { return bound.input.name == name; });
    if (place == bound_.end()) {
      std::vector<std::string> names;
      for (const auto& [input, output] : pairs_) names.push_back(input);
      fail(ErrorKind::usage, "{}: {} of '{}': it is not an input with state; legal values are {}", session_->name(),
           what, name, fmt::join(names, ", "));
    }
    if (!can_be(place->input, value)) refuse(*place, value, fmt::format("{} of input '{}'", what, name));
    copies.emplace(name, clone(value));
  }
  return copies;
}

/// Throws bad_input for a value that an input cannot have. `what` names the value.
void State::refuse(const Bound& bound, const AnyValue& value, const std::string& what) const {
  fail(ErrorKind::bad_input, "{}: {} must be {}, got {}", session_->name(), what, onnx::text(bound.input), text(value));
}

void State::reset(const Values& values) {
  Values begin = checked_copies(values, "the value");
  for (const Bound& bound : bound_) {
    const auto given = initial_.find(bound.input.name);
    if (given != initial_.end()) begin.emplace(*given);
  }
  const Sizes sizes = sizes_of(begin);
  for (const Bound& bound : bound_) {
    if (auto first = first_value(bound, sizes, false)) begin.emplace(bound.input.name, std::move(*first));
  }
  values_ = std::move(begin);
}

/// Whether an input that callers pass to runs has a dimension of this name.
bool State::has_free_input_with(const std::string& symbol) const {
  const auto has = [&](const onnx::Port& port) {
    return port.dims && std::ranges::find(*port.dims, symbol, &onnx::Dim::symbol) != port.dims->end();
  };
  return !symbol.empty() && std::ranges::any_of(inputs_, has);
}

/// The initial size of a dimension of a state; nothing if it is unknown. `sizes`: those of named dimensions. `running`:
/// whether they include those of a run's inputs.
std::optional<int64_t> State::first_size(const Bound& bound, size_t dim, const Sizes& sizes, bool running) const {
  const onnx::Dim& declared = (*bound.input.dims)[dim];
  if (declared.size) return declared.size;
  const ShapeRanges::Input* range = session_->ranges().find(bound.input.name);
  if (range != nullptr && range->dims.at(dim).count() == 1) return range->dims[dim].at(0);
  if (bound.axis == static_cast<int64_t>(dim)) return 0;
  if (const auto known = sizes.find(declared.symbol); known != sizes.end()) return known->second;
  if (!running && has_free_input_with(declared.symbol)) return std::nullopt;
  return bound.grows[dim] ? std::optional<int64_t>(0) : std::nullopt;
}

std::optional<AnyValue> State::first_value(const Bound& bound, const Sizes& sizes, bool running) const {
  const onnx::Port& port = bound.input;
  if (bound.fallback) return *bound.fallback;
  if (port.kind == DeclaredType::Kind::optional) return AnyValue();
  if (port.kind == DeclaredType::Kind::sequence) return AnyValue::sequence({});
  const auto given = session_->options().shapes.find(port.name);
  if (given != session_->options().shapes.end()) return Tensor(port.type, given->second);
  if (!port.is_tensor() || !port.dims) return std::nullopt;
  Shape shape;
  for (size_t d = 0; d < port.dims->size(); ++d) {
    const auto size = first_size(bound, d, sizes, running);
    if (!size) return std::nullopt;
    shape.push_back(*size);
  }
  return Tensor(port.type, std::move(shape));
}

/// Why first_value() returns nothing; "" if a run will determine it.
std::string State::why_unknown(const Bound& bound, const Sizes& sizes, bool running) const {
  const onnx::Port& port = bound.input;
  if (!port.is_tensor()) return "a map cannot start with zeros; give bind_state() one";
  if (!port.dims) return "its rank is open; give bind_state() one";
  Shape example;
  std::string unknown;
  for (size_t d = 0; d < port.dims->size(); ++d) {
    const std::string& symbol = (*port.dims)[d].symbol;
    const auto size = first_size(bound, d, sizes, running);
    if (!size && unknown.empty() && (running || !has_free_input_with(symbol))) unknown = dimension_text(d, symbol);
    example.push_back(size.value_or(1));
  }
  if (unknown.empty()) return "";
  return fmt::format("the size of {} cannot be determined; give bind_state() one, such as zeros of shape {}", unknown,
                     text(example));
}

void State::fail_without_value(const Bound& bound, const std::string& why) const {
  fail(ErrorKind::bad_input, "{}: input '{}' ({}) needs an initial value: {}", session_->name(), bound.input.name,
       onnx::text(bound.input), why);
}

/// The sizes of named dimensions in these values of inputs, bound or not.
template <class Value>
State::Sizes State::sizes_of(const std::map<std::string, Value>& inputs) const {
  Sizes sizes;
  const auto learn = [&](const onnx::Port& port) {
    const auto given = inputs.find(port.name);
    if (given == inputs.end() || !port.dims) return;
    const Shape& shape = tensor_in(given->second).shape();
    for (size_t d = 0; d < std::min(port.dims->size(), shape.size()); ++d) {
      if (const std::string& symbol = (*port.dims)[d].symbol; !symbol.empty()) sizes.emplace(symbol, shape[d]);
    }
  };
  for (const onnx::Port& port : inputs_) learn(port);
  for (const Bound& bound : bound_) learn(bound.input);
  return sizes;
}

template <class Value>
std::map<std::string, Value> State::with(std::map<std::string, Value> inputs) const {
  for (const Bound& bound : bound_) {
    if (!inputs.contains(bound.input.name)) continue;
    fail(ErrorKind::bad_input,
         "{}: input '{}' is state, which the network keeps between runs; leave it out, and use reset_state() to set it",
         session_->name(), bound.input.name);
  }
  const auto add = [&](const std::string& name, const AnyValue& value) {
    if constexpr (std::is_same_v<Value, Tensor>) {
      inputs.emplace(name, value.tensor());
    } else {
      inputs.emplace(name, value);
    }
  };
  for (const auto& [name, value] : values_) add(name, value);
  if (values_.size() == bound_.size()) return inputs;
  const Sizes sizes = sizes_of(inputs);
  for (const Bound& bound : bound_) {
    if (values_.contains(bound.input.name)) continue;
    const auto first = first_value(bound, sizes, true);
    if (!first) fail_without_value(bound, why_unknown(bound, sizes, true));
    add(bound.input.name, *first);
  }
  return inputs;
}

template std::map<std::string, Tensor> State::with(std::map<std::string, Tensor> inputs) const;
template std::map<std::string, AnyValue> State::with(std::map<std::string, AnyValue> inputs) const;

void State::check_memory(const std::map<std::string, Tensor>& outputs) const {
  for (const auto& [input, output] : pairs_) {
    if (!outputs.contains(output)) continue;
    fail(ErrorKind::bad_input,
         "{}: memory for output '{}': it is the next value of input '{}', which the network keeps; leave it out",
         session_->name(), output, input);
  }
}

/// Stores the bound results as the state, and returns the others.
template <class Value>
std::vector<Value> State::keep(std::vector<Value> results) {
  Values next;
  for (const Bound& bound : bound_) {
    const std::string& name = bound.input.name;
    const AnyValue& value = next.emplace(name, results.at(bound.output)).first->second;
    if (can_be(bound.input, value)) continue;
    refuse(bound, value, fmt::format("output '{}', the next value of input '{}',", pairs_.at(name), name));
  }
  values_ = std::move(next);
  std::vector<Value> others;
  others.reserve(free_outputs_.size());
  for (const size_t i : free_outputs_) others.push_back(std::move(results.at(i)));
  return others;
}

std::vector<Tensor> State::run(std::map<std::string, Tensor> inputs, const std::map<std::string, Tensor>& outputs) {
  check_memory(outputs);
  return keep(session_->run(with(std::move(inputs)), outputs));
}

std::vector<AnyValue> State::run_values(std::map<std::string, AnyValue> inputs,
                                        const std::map<std::string, Tensor>& outputs) {
  check_memory(outputs);
  return keep(session_->run_values(with(std::move(inputs)), outputs));
}

State& bound_state(std::optional<State>& state, const Session& session) {
  if (!state)
    fail(ErrorKind::usage, "{}: reset_state: the network has no state; call bind_state() first", session.name());
  return *state;
}

}  // namespace kilter
