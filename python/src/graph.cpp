#include "graph.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "arrays.h"
#include "base/error.h"
#include "compile/memory_model.h"
#include "onnx/model.h"
#include "ops/op.h"
#include "ops/support/builder.h"

namespace kilter::python {
namespace {

DType dtype_of(const std::string& text) {
  const std::optional<DType> type = parse_dtype(text);
  if (!type)
    fail(ErrorKind::usage,
         "element type '{}': legal values are f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, bool, "
         "f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f8e8m0, f4e2m1, i4, u4, i2, u2",
         text);
  return *type;
}

template <class T>
std::vector<T> list_of(nb::handle values) {
  std::vector<T> out;
  for (const nb::handle value : nb::iter(values)) out.push_back(nb::cast<T>(value));
  return out;
}

/// Returns an attribute for an int, float, str, array, or a list of ints, floats or strs.
Attr attr_of(const std::string& name, nb::handle value) {
  if (nb::isinstance<nb::bool_>(value) || nb::isinstance<nb::int_>(value))
    return int64_t{nb::cast<int64_t>(nb::int_(value))};
  if (nb::isinstance<nb::float_>(value)) return static_cast<float>(nb::cast<double>(value));
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) {
    bool floats = false, texts = false;
    for (const nb::handle item : nb::iter(value)) {
      floats |= nb::isinstance<nb::float_>(item);
      texts |= nb::isinstance<nb::str>(item);
    }
    if (texts) return list_of<std::string>(value);
    if (floats) return list_of<float>(value);
    return list_of<int64_t>(value);
  }
  return tensor_of(value, "attribute '" + name + "'");
}

/// Turns whole numbers into floats where the operator expects floats: Python programs write alpha=1.
void widen(Attrs& attrs, const OpDef* op) {
  if (op == nullptr) return;  // which add() reports
  for (const AttrSpec& spec : op->attrs) {
    const auto found = attrs.find(std::string(spec.name));
    if (found == attrs.end()) continue;
    if (const auto* whole = std::get_if<int64_t>(&found->second); whole != nullptr && spec.type == "float") {
      found->second = static_cast<float>(*whole);
    } else if (const auto* list = std::get_if<std::vector<int64_t>>(&found->second);
               list != nullptr && spec.type == "floats") {
      found->second = std::vector<float>(list->begin(), list->end());
    }
  }
}

class Builder {
 public:
  Builder(const std::string& name, int32_t opset) : builder_(graph_, opset) { graph_.name = name; }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  ValueId input(const std::string& name, const std::string& dtype, const Shape& shape) {
    elems(shape);  // refuses negative dimensions
    for (size_t i = 0; i < graph_.value_count(); ++i) {
      const auto& other = graph_.value(static_cast<ValueId>(i));
      if (!other.dead && other.name == name)
        fail(ErrorKind::usage, "graph '{}': input '{}': the graph has a value of this name", graph_.name, name);
    }
    return builder_.input(name, dtype_of(dtype), shape);
  }
  ValueId constant(nb::handle array, const std::string& name) {
    return builder_.constant(tensor_of(array, "constant '" + name + "'"), name);
  }
  std::vector<ValueId> add(const std::string& op, const std::vector<std::optional<ValueId>>& inputs, nb::dict attrs,
                           const std::string& name, const std::string& domain, int32_t opset, size_t outputs) {
    std::vector<ValueId> ids;
    for (const std::optional<ValueId>& input : inputs) ids.push_back(input ? known(*input) : kNone);
    Attrs all;
    for (const auto& [key, value] : attrs) {
      const auto attr = nb::cast<std::string>(key);
      all[attr] = attr_of(attr, value);
    }
    widen(all, find_op(domain, op, opset != 0 ? opset : builder_.opset()));
    GraphBuilder::Options options;
    options.name = name, options.domain = domain, options.opset = opset, options.output_count = outputs;
    return builder_.add(op, std::move(ids), std::move(all), options);
  }
  void output(ValueId value, const std::string& name) { graph_.add_output(known(value), name); }

  std::string dtype(ValueId value) const { return std::string(name_of(graph_.type(known(value)).dtype)); }
  Shape shape(ValueId value) const { return graph_.type(known(value)).shape; }
  std::string value_name(ValueId value) const { return graph_.value(known(value)).name; }
  nb::object value_constant(ValueId value) const {
    const std::optional<Tensor>& constant = graph_.value(known(value)).constant;
    return constant ? array_of(*constant) : nb::none();
  }
  std::string text() const { return print(graph_); }

  void save(const std::string& file) const { onnx::save(*finished(), file, builder_.opset()); }
  std::shared_ptr<MemoryModel> model() const { return std::make_shared<MemoryModel>(finished()); }

 private:
  /// Returns the graph without what no output needs, such as constants of operators that could not be added.
  std::shared_ptr<const Graph> finished() const {
    auto graph = std::make_shared<Graph>(graph_);
    graph->sort();
    graph->remove_dead();
    verify(*graph);
    return graph;
  }
  static std::string_view name_of(DType type) { return name(type); }
  ValueId known(ValueId value) const {
    if (value < 0 || static_cast<size_t>(value) >= graph_.value_count())
      fail(ErrorKind::usage, "value {} is not one of this graph, which has {}", value, graph_.value_count());
    return value;
  }

  Graph graph_;
  GraphBuilder builder_;
};

}  // namespace

void add_graphs(nb::module_& module) {
  module.attr("NEWEST_OPSET") = kNewestOpset;
  nb::class_<Builder>(module, "GraphBuilder")
      .def(nb::init<const std::string&, int32_t>(), nb::arg("name"), nb::arg("opset"))
      .def("input", &Builder::input, nb::arg("name"), nb::arg("dtype"), nb::arg("shape"))
      .def("constant", &Builder::constant, nb::arg("array"), nb::arg("name"))
      .def("add", &Builder::add, nb::arg("op"), nb::arg("inputs"), nb::arg("attrs"), nb::arg("name"), nb::arg("domain"),
           nb::arg("opset"), nb::arg("outputs"))
      .def("output", &Builder::output, nb::arg("value"), nb::arg("name"))
      .def("dtype", &Builder::dtype, nb::arg("value"))
      .def("shape", &Builder::shape, nb::arg("value"))
      .def("value_name", &Builder::value_name, nb::arg("value"))
      .def("value_constant", &Builder::value_constant, nb::arg("value"))
      .def("text", &Builder::text)
      .def("save", &Builder::save, nb::arg("file"))
      .def("model", &Builder::model);
}

}  // namespace kilter::python
