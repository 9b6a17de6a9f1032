// The C interface to state that an instance keeps between runs.
#include <algorithm>
#include <string>
#include <vector>

#include "base/nearest.h"
#include "base/text.h"
#include "exec/c_abi/support.h"

namespace kilter::c_abi {
namespace {

/// What state needs to know of an input or output.
struct Port {
  std::string name;
  DType type = DType::f32;
  std::optional<Shape> dims;  ///< as vm::FilePort::dims
  bool tensor = true;
};

std::vector<Port> ports_of(const kilter_instance& instance, bool outputs) {
  std::vector<Port> ports;
  if (instance.program) {
    const vm::ProgramFile& file = instance.program->program().file();
    for (const vm::FilePort& port : outputs ? file.outputs : file.inputs)
      ports.push_back({port.name, port.type, port.dims, port.is_tensor() && port.type != DType::string});
    return ports;
  }
  const Plan& plan = instance.of->plan();
  for (const PlanTensor& port : outputs ? plan.outputs : plan.inputs)
    ports.push_back({port.name, port.type, port.shape});
  return ports;
}

size_t find(const std::vector<Port>& ports, const char* what, const std::string& name) {
  std::vector<std::string> legal;
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].name == name) return i;
    legal.push_back(ports[i].name);
  }
  fail(ErrorKind::usage, "no {} '{}'{} legal values are {}", what, printable(name), did_you_mean(name, legal),
       join(legal, ", "));
}

std::string text_of(const Port& port) {
  if (!port.tensor) return "not a tensor of numbers";
  std::string dims = port.dims ? "" : "...";
  for (size_t d = 0; port.dims && d < port.dims->size(); ++d) {
    if (d > 0) dims += ",";
    dims += (*port.dims)[d] < 0 ? "?" : std::to_string((*port.dims)[d]);
  }
  return fmt::format("{}[{}]", name(port.type), dims);
}

bool may_be_equal(const Port& a, const Port& b) {
  if (!a.tensor || !b.tensor || a.type != b.type) return false;
  if (!a.dims || !b.dims) return true;
  return std::ranges::equal(*a.dims, *b.dims, [](int64_t x, int64_t y) { return x < 0 || y < 0 || x == y; });
}

/// The first value of a bound input: a copy of `given`, or zeros if it is null.
AnyValue first_value(const Port& port, const kilter_value* given) {
  if (given != nullptr) {
    const AnyValue& value = given->value;
    const bool fits = value.is_tensor() && value.tensor().dtype() == port.type &&
                      may_be_equal(port, {{}, port.type, value.tensor().shape()});
    if (!fits) {
      fail(ErrorKind::bad_input, "the initial value of input '{}' must be {}, got {}", port.name, text_of(port),
           text(value));
    }
    return value.tensor().clone();
  }
  if (!port.dims || std::ranges::any_of(*port.dims, [](int64_t d) { return d < 0; })) {
    fail(ErrorKind::usage, "input '{}' is {}, so the size of its initial value is not known; give the initial value",
         port.name, text_of(port));
  }
  return Tensor(port.type, *port.dims);
}

}  // namespace
}  // namespace kilter::c_abi

using kilter::ErrorKind;
using kilter::c_abi::BoundState;
using kilter::c_abi::guarded;
using kilter::c_abi::not_null;

kilter_status kilter_instance_bind_state(kilter_instance* instance, const char* input, const char* output,
                                         const kilter_value* initial) {
  return guarded([&] {
    not_null(instance, "instance");
    not_null(input, "input");
    not_null(output, "output");
    const kilter::c_abi::InUse in_use(*instance);
    const auto inputs = kilter::c_abi::ports_of(*instance, false), outputs = kilter::c_abi::ports_of(*instance, true);
    BoundState bound{
        kilter::c_abi::find(inputs, "input", input), kilter::c_abi::find(outputs, "output", output), {}, {}};
    for (const BoundState& other : instance->state) {
      if (other.input != bound.input && other.output != bound.output) continue;
      kilter::fail(ErrorKind::usage, "input '{}' is bound to output '{}'; each can be bound once",
                   inputs[other.input].name, outputs[other.output].name);
    }
    if (!kilter::c_abi::may_be_equal(inputs[bound.input], outputs[bound.output])) {
      kilter::fail(
          ErrorKind::usage,
          "output '{}' is {} and input '{}' is {}; the value of the output must be one that the input can have", output,
          kilter::c_abi::text_of(outputs[bound.output]), input, kilter::c_abi::text_of(inputs[bound.input]));
    }
    bound.value = bound.initial = kilter::c_abi::first_value(inputs[bound.input], initial);
    instance->state.push_back(std::move(bound));
  });
}

kilter_status kilter_instance_reset_state(kilter_instance* instance) {
  return guarded([&] {
    not_null(instance, "instance");
    const kilter::c_abi::InUse in_use(*instance);
    for (BoundState& bound : instance->state) bound.value = bound.initial;
  });
}

kilter_status kilter_instance_state(kilter_instance* instance, const char* input, kilter_value** value) {
  if (value != nullptr) *value = nullptr;
  return guarded([&] {
    not_null(instance, "instance");
    not_null(input, "input");
    not_null(value, "value");
    const kilter::c_abi::InUse in_use(*instance);
    const size_t index = kilter::c_abi::find(kilter::c_abi::ports_of(*instance, false), "input", input);
    const auto bound = std::ranges::find(instance->state, index, &BoundState::input);
    if (bound == instance->state.end())
      kilter::fail(ErrorKind::usage, "input '{}' is not bound; call kilter_instance_bind_state() first", input);
    *value = new kilter_value{bound->value};
  });
}
