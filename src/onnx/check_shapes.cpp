#include "onnx/check_shapes.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "onnx/model_data.h"

namespace kilter::onnx {

using kilter::text;

void check_name(const std::string& name, const std::vector<Port>& inputs, const std::vector<Port>& defaults,
                const std::string& model) {
  std::vector<std::string> legal;
  for (const auto* ports : {&inputs, &defaults}) {
    for (const Port& port : *ports) {
      if (port.name == name) return;
      legal.push_back(fmt::format("{} {}", quote(port.name), text(port)));
    }
  }
  fail(ErrorKind::bad_input, "{}: the model has no input {}; its inputs are: {}", model, quote(name),
       legal.empty() ? "none" : fmt::format("{}", fmt::join(legal, ", ")));
}

void check_shape(const Port& port, const Shape& shape, const std::string& model) {
  const auto refuse = [&](const std::string& why) {
    fail(ErrorKind::bad_input, "{}: input {}: declared {}, given {}: {}", model, quote(port.name), text(port),
         text(shape), why);
  };
  for (const int64_t d : shape) {
    if (d < 0) refuse("dimensions are 0 or more");
  }
  try {
    elems(shape);
  } catch (const Error& error) {
    refuse(error.message());
  }
  if (!port.dims) return;
  if (port.dims->size() != shape.size()) {
    refuse(fmt::format("expected {} dimensions, got {}", port.dims->size(), shape.size()));
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto& size = (*port.dims)[i].size;
    if (size && *size != shape[i]) refuse(fmt::format("dimension {} is {} in the model, got {}", i, *size, shape[i]));
  }
}

void check_shapes(const Model::Shapes& shapes, const std::vector<Port>& inputs, const std::vector<Port>& defaults,
                  const std::string& model) {
  for (const auto& [name, shape] : shapes) {
    check_name(name, inputs, defaults, model);
    for (const auto* ports : {&inputs, &defaults}) {
      const auto port = std::ranges::find(*ports, name, &Port::name);
      if (port != ports->end() && port->is_tensor()) check_shape(*port, shape, model);
    }
  }
}

}  // namespace kilter::onnx
