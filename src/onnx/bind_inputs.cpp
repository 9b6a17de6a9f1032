#include "onnx/bind_inputs.h"

#include <fmt/ranges.h>

#include <map>

#include "base/error.h"
#include "base/text.h"

namespace kilter::onnx {
namespace {

using kilter::text;

const Port* find(const std::vector<Port>& ports, const std::string& name) {
  for (const Port& port : ports) {
    if (port.name == name) return &port;
  }
  return nullptr;
}

void check_name(const ModelData& model, const std::string& name) {
  if (find(model.inputs, name) != nullptr || find(model.default_inputs, name) != nullptr) return;
  std::vector<std::string> legal;
  for (const Port& port : model.inputs) legal.push_back(fmt::format("{} {}", quote(port.name), text(port)));
  for (const Port& port : model.default_inputs) legal.push_back(fmt::format("{} {}", quote(port.name), text(port)));
  fail(ErrorKind::bad_input, "{}: the model has no input {}; its inputs are: {}", model.file, quote(name),
       legal.empty() ? "none" : fmt::format("{}", fmt::join(legal, ", ")));
}

void check_shape(const ModelData& model, const Port& port, const Shape& shape) {
  const auto refuse = [&](const std::string& why) {
    fail(ErrorKind::bad_input, "{}: input {}: declared {}, given {}: {}", model.file, quote(port.name), text(port),
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

/// Example shapes that the model accepts, to show to the user. Dimensions with the same name get the same size.
class Examples {
 public:
  void learn(const Port& port, const Shape& shape) {
    for (size_t i = 0; port.dims && i < std::min(shape.size(), port.dims->size()); ++i) {
      if (const std::string& symbol = (*port.dims)[i].symbol; !symbol.empty()) sizes_.emplace(symbol, shape[i]);
    }
  }
  std::string shape(const Port& port) {
    if (!port.dims) return "1x3x640x640";
    const auto& dims = *port.dims;
    const bool image = dims.size() == 4 && dims[1].size && *dims[1].size <= 4;
    Shape shape;
    for (size_t i = 0; i < dims.size(); ++i) {
      const int64_t open = i == 0 ? 1 : image ? 640 : 128;
      const bool named = !dims[i].size && !dims[i].symbol.empty();
      shape.push_back(named ? sizes_.emplace(dims[i].symbol, open).first->second : dims[i].size.value_or(open));
    }
    return text(shape);
  }

 private:
  std::map<std::string, int64_t> sizes_;  ///< sizes of named dimensions
};

/// Returns "'x' f32[batch,3,?]: dimensions 0 ('batch') and 2 have no size".
std::string unbound_text(const Port& port) {
  const std::string head = fmt::format("input {} {}", quote(port.name), text(port));
  if (!port.dims) return head + ": its rank is unknown";
  std::vector<std::string> open;
  for (size_t i = 0; i < port.dims->size(); ++i) {
    const Dim& dim = (*port.dims)[i];
    if (dim.size) continue;
    open.push_back(dim.symbol.empty() ? std::to_string(i) : fmt::format("{} ({})", i, quote(dim.symbol)));
  }
  return fmt::format("{}: no size for dimension{} {}", head, open.size() == 1 ? "" : "s", fmt::join(open, ", "));
}

}  // namespace

std::optional<Shape> declared_shape(const Port& port) {
  if (!port.is_tensor()) return std::nullopt;
  if (!port.dims) return std::nullopt;
  Shape shape;
  for (const Dim& dim : *port.dims) {
    if (!dim.size) return std::nullopt;
    shape.push_back(*dim.size);
  }
  return shape;
}

std::string open_inputs_text(const std::vector<Port>& ports, const Model::Shapes& given, const Model::Shapes& shown) {
  Examples examples;
  for (const Port& port : ports) {
    if (const auto shape = given.find(port.name); shape != given.end()) examples.learn(port, shape->second);
  }
  std::vector<std::string> what, options;
  for (const Port& port : ports) {
    if (!port.is_tensor() || given.contains(port.name) || declared_shape(port)) continue;
    what.push_back(unbound_text(port));
    const auto own = shown.find(port.name);
    options.push_back("--input " +
                      shell_word(port.name + "=" + (own != shown.end() ? text(own->second) : examples.shape(port))));
  }
  if (what.empty()) return "";
  return fmt::format("{}; give the shape, e.g. `{}`", fmt::join(what, "; "), fmt::join(options, " "));
}

std::vector<BoundInput> bind_inputs(const ModelData& model, const Model::Shapes& shapes, const Model::Values& values) {
  for (const auto& [name, shape] : shapes) check_name(model, name);
  for (const auto& [name, value] : values) check_name(model, name);
  std::vector<BoundInput> bound;
  Model::Shapes known = shapes;
  for (const auto& [name, value] : values) known[name] = value.shape();
  const std::string open = open_inputs_text(model.inputs, known);
  const auto bind = [&](const Port& port) {
    const auto given = shapes.find(port.name);
    const auto value = values.find(port.name);
    if (given != shapes.end()) check_shape(model, port, given->second);
    if (value != values.end()) {
      const Tensor& tensor = value->second;
      check_shape(model, port, tensor.shape());
      if (tensor.dtype() != port.type || (given != shapes.end() && given->second != tensor.shape())) {
        fail(ErrorKind::bad_input, "{}: input {}: declared {}{}, given a value {}", model.file, quote(port.name),
             text(port), given != shapes.end() ? " and bound to " + text(given->second) : "",
             text(TensorType{tensor.dtype(), tensor.shape(), {}}));
      }
      bound.push_back({&port, tensor.shape(), &tensor});
    } else if (given != shapes.end()) {
      bound.push_back({&port, given->second, nullptr});
    } else if (auto declared = declared_shape(port)) {
      check_shape(model, port, *declared);
      bound.push_back({&port, *declared, nullptr});
    }
  };
  for (const Port& port : model.inputs) bind(port);
  for (const Port& port : model.default_inputs) {
    if (shapes.contains(port.name) || values.contains(port.name)) bind(port);
  }
  if (!open.empty()) fail(ErrorKind::bad_input, "{}: {}", model.file, open);
  return bound;
}

}  // namespace kilter::onnx
