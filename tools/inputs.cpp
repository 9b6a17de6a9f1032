// The values of --input: tensors, and sequences, maps and optional values of programs.

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/npy.h"
#include "base/npz.h"
#include "base/text.h"
#include "compile/index_limit.h"
#include "map_file.h"
#include "onnx/check_shapes.h"
#include "onnx/value_file.h"
#include "ops/support/builder.h"
#include "tool.h"
#include "tuning.h"

namespace kilter::tool {
namespace {

constexpr std::string_view kEmptySequence = "[]";

/// What the value of one --input gives.
enum class Form : uint8_t { shape, npy, pb, npz, json, empty_sequence };

Form form_of(const std::string& option, const std::string& value) {
  if (try_parse_shape(value)) return Form::shape;
  if (value == kEmptySequence) return Form::empty_sequence;
  if (value.ends_with(".pb")) return Form::pb;
  if (value.ends_with(".npz")) return Form::npz;
  if (value.ends_with(".json")) return Form::json;
  if (!value.ends_with(".npy") && !std::filesystem::exists(value)) {
    fail(ErrorKind::usage,
         "--input {}: '{}' is neither a shape such as 1x3x224x224 nor a file; expected NAME=SHAPE, NAME=FILE.npy, "
         "NAME=FILE.pb, for a sequence also NAME=FILE.npz or NAME=[], for maps NAME=FILE.json",
         option, value);
  }
  return Form::npy;
}

/// Returns the tensor in an ONNX file; nothing if the file contains another value, or none.
std::optional<Tensor> try_load_tensor(const std::string& file) {
  try {
    return onnx::load_tensor(file);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_input) throw;
    return std::nullopt;
  }
}

/// Returns the options that give this input, in order.
std::vector<std::string> given_for(const std::vector<std::string>& inputs, const std::string& name) {
  std::vector<std::string> values;
  for (const std::string& text : inputs) {
    auto [own, value] = split_assignment(text, "--input");
    if (own == name) values.push_back(std::move(value));
  }
  return values;
}

/// Redraws generated integers that index a dimension with fewer than 100 elements, so that every index is in range.
void keep_indices_legal(const Session& session, const std::set<std::string>& generated,
                        std::map<std::string, Tensor>& all) {
  const auto draw = [&](const std::string& name, std::optional<int64_t> limit) {
    if (!limit || *limit < 1 || *limit > 99 || !generated.contains(name)) return;
    all[name] = random_input(name, all[name].dtype(), all[name].shape(), 0, *limit - 1);
  };
  if (const Plan* plan = session.file_plan()) {
    for (size_t i = 0; i < plan->inputs.size(); ++i)
      draw(plan->inputs[i].name, index_limit(*plan, static_cast<int32_t>(i)));
    return;
  }
  try {
    const Graph graph = session.bind(all).graph;
    for (const ValueId v : graph.inputs()) draw(graph.value(v).name, index_limit(graph, v));
  } catch (const NeedsProgram&) {
    // Indices of a program are checked when it runs.
  }
}

/// Reads the value of an input that is not a tensor from the options that give it.
class OddInput {
 public:
  /// `model` names the network in errors.
  OddInput(const onnx::Port& port, std::vector<std::string> values, std::string model)
      : port_(port), values_(std::move(values)), model_(std::move(model)) {}

  AnyValue read() const {
    if (values_.empty()) {
      if (port_.kind == DeclaredType::Kind::optional) return {};
      refuse("is not given");
    }
    if (values_.size() == 1) {
      if (auto whole = read_whole(values_[0])) return *whole;
    }
    if (port_.key) refuse(fmt::format("is given as '{}'", values_[0]));
    if (port_.is_sequence()) return elements();
    if (values_.size() > 1) refuse("is given twice");
    return element(values_[0], port_.name);
  }

 private:
  /// Returns the value that one option gives completely.
  std::optional<AnyValue> read_whole(const std::string& value) const {
    const Form form = form_of(port_.name + "=" + value, value);
    if (form == Form::json) {
      if (!port_.key) refuse(fmt::format("is given as '{}'", value));
      return load_maps(value, port_);
    }
    const bool whole = port_.key || (form == Form::pb && !try_load_tensor(value));
    if (form == Form::pb && whole) return onnx::load_value(value, port_.kind);
    if (!port_.is_sequence()) return std::nullopt;
    if (form == Form::empty_sequence) return AnyValue::sequence({});
    if (form != Form::npz || port_.key) return std::nullopt;
    std::vector<AnyValue> arrays;
    for (auto& [name, tensor] : load_npz(value)) arrays.emplace_back(std::move(tensor));
    return AnyValue::sequence(std::move(arrays));
  }

  AnyValue elements() const {
    std::vector<AnyValue> all;
    for (const std::string& value : values_)
      all.push_back(element(value, fmt::format("{}[{}]", port_.name, all.size())));
    return AnyValue::sequence(std::move(all));
  }

  /// Returns a tensor; `name` chooses random values.
  AnyValue element(const std::string& value, const std::string& name) const {
    switch (form_of(port_.name + "=" + value, value)) {
      case Form::shape:
        return random_input(name, port_.type, *try_parse_shape(value));
      case Form::npy:
        return load_npy(value);
      case Form::pb:
        return onnx::load_tensor(value);
      default:
        refuse(fmt::format("is given as '{}'", value));
    }
  }

  [[noreturn]] void refuse(const std::string& what) const {
    const std::string option = "`--input " + shell_word(port_.name);
    std::string forms = option + "=FILE.npy`, " + option + "=FILE.pb` or " + option + "=SHAPE`";
    if (port_.is_sequence()) forms = option + "=FILE.npz`, or its elements one after another, " + forms;
    if (port_.key) forms = option + "=FILE.json` or " + option + "=FILE.pb`";
    fail(ErrorKind::bad_input, "{}: input '{}' ({}) {}; give it as {}", model_, printable(port_.name),
         onnx::text(port_), what, forms);
  }

  const onnx::Port& port_;
  std::vector<std::string> values_;
  std::string model_;
};

}  // namespace

onnx::Model::Shapes ModelOptions::shapes() const {
  onnx::Model::Shapes shapes;
  for (const std::string& text : inputs) {
    const auto [name, value] = split_assignment(text, "--input");
    if (const auto shape = try_parse_shape(value)) shapes[name] = *shape;
  }
  return shapes;
}

std::map<std::string, Tensor> ModelOptions::tensors() const {
  std::map<std::string, Tensor> tensors;
  for (const std::string& text : inputs) {
    const auto [name, value] = split_assignment(text, "--input");
    const Form form = form_of(text, value);
    if (form == Form::npy) tensors[name] = load_npy(value);
    if (form != Form::pb) continue;
    if (auto tensor = try_load_tensor(value)) tensors[name] = std::move(*tensor);
  }
  return tensors;
}

void ModelOptions::check_tensors(const Session& session) const {
  for (const auto& ports : {session.inputs(), session.default_inputs()}) {
    for (const onnx::Port& port : ports) {
      if (!port.is_tensor()) continue;
      for (const std::string& value : given_for(inputs, port.name)) {
        switch (form_of(port.name + "=" + value, value)) {
          case Form::shape:
          case Form::npy:
            break;
          case Form::pb:
            onnx::load_tensor(value);
            break;
          default:
            fail(ErrorKind::bad_input, "{}: input '{}' ({}) is given as '{}'; expected SHAPE, FILE.npy or FILE.pb",
                 session.name(), printable(port.name), onnx::text(port), value);
        }
      }
    }
  }
}

std::map<std::string, Tensor> ModelOptions::tensor_inputs(const Session& session,
                                                          const onnx::Model::Shapes& shapes) const {
  std::map<std::string, Tensor> all = tensors();
  std::set<std::string> generated;  // the generated integer inputs
  onnx::Model::Shapes given = session.options().shapes;
  for (const auto& [name, shape] : shapes) given[name] = shape;
  std::vector<onnx::Port> ports = session.inputs();
  for (const onnx::Port& port : session.default_inputs()) {
    if (given.contains(port.name)) ports.push_back(port);
  }
  for (const auto& [name, tensor] : all) given[name] = tensor.shape();
  if (const std::string open = onnx::open_inputs_text(ports, given, session.example_shapes()); !open.empty()) {
    for (const auto& [name, shape] : given)  // a wrong name may be why an input has no shape
      onnx::check_name(name, session.inputs(), session.default_inputs(), session.name());
    fail(ErrorKind::bad_input, "{}: {}", session.name(), open);
  }
  for (const onnx::Port& port : ports) {
    if (!port.is_tensor()) all.erase(port.name);
    if (!port.is_tensor() || all.contains(port.name)) continue;
    const auto it = given.find(port.name);
    all[port.name] = random_input(port.name, port.type, it != given.end() ? it->second : *onnx::declared_shape(port));
    if (port.type == DType::i32 || port.type == DType::i64) generated.insert(port.name);
  }
  if (!generated.empty()) keep_indices_legal(session, generated, all);
  return all;
}

std::map<std::string, Tensor> ModelOptions::all_inputs(const Session& session,
                                                       const onnx::Model::Shapes& shapes) const {
  for (const onnx::Port& port : session.inputs()) {
    if (port.is_tensor() || port.kind == DeclaredType::Kind::optional) continue;
    fail(ErrorKind::bad_input, "{}: input '{}' is a {}; this command takes networks with tensors only", session.name(),
         printable(port.name), onnx::text(port));
  }
  return tensor_inputs(session, shapes);
}

std::map<std::string, AnyValue> ModelOptions::all_values(const Session& session) const {
  std::map<std::string, AnyValue> all;
  for (auto& [name, tensor] : tensor_inputs(session)) all.emplace(name, std::move(tensor));
  for (const onnx::Port& port : session.inputs()) {
    if (!port.is_tensor()) all.emplace(port.name, OddInput(port, given_for(inputs, port.name), session.name()).read());
  }
  return all;
}

}  // namespace kilter::tool
