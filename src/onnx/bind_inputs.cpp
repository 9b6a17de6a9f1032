#include "onnx/bind_inputs.h"

#include <fmt/ranges.h>

#include <map>

#include "base/error.h"
#include "base/text.h"
#include "onnx/check_shapes.h"

namespace kilter::onnx {
namespace {

using kilter::text;

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
  for (const auto& [name, shape] : shapes) check_name(name, model.inputs, model.default_inputs, model.file);
  for (const auto& [name, value] : values) check_name(name, model.inputs, model.default_inputs, model.file);
  std::vector<BoundInput> bound;
  Model::Shapes known = shapes;
  for (const auto& [name, value] : values) known[name] = value.shape();
  const std::string open = open_inputs_text(model.inputs, known);
  const auto bind = [&](const Port& port) {
    const auto given = shapes.find(port.name);
    const auto value = values.find(port.name);
    if (given != shapes.end()) check_shape(port, given->second, model.file);
    if (value != values.end()) {
      const Tensor& tensor = value->second;
      check_shape(port, tensor.shape(), model.file);
      if (tensor.dtype() != port.type || (given != shapes.end() && given->second != tensor.shape())) {
        fail(ErrorKind::bad_input, "{}: input {}: declared {}{}, given a value {}", model.file, quote(port.name),
             text(port), given != shapes.end() ? " and bound to " + text(given->second) : "",
             text(TensorType{tensor.dtype(), tensor.shape(), {}}));
      }
      bound.push_back({&port, tensor.shape(), &tensor});
    } else if (given != shapes.end()) {
      bound.push_back({&port, given->second, nullptr});
    } else if (auto declared = declared_shape(port)) {
      check_shape(port, *declared, model.file);
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
