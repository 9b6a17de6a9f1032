#include "ops/support/operands.h"

namespace kilter {
namespace {

template <class T>
Tensor vector_of(const std::vector<T>& values) {
  return Tensor::of<T>({static_cast<int64_t>(values.size())}, std::span<const T>(values));
}

Tensor strings_of(Shape shape, std::vector<std::string> values) {
  Tensor tensor(DType::string, std::move(shape));
  tensor.strings() = std::move(values);
  return tensor;
}

Tensor value_of(const Node& node) {
  for (const std::string_view name : {"value", "sparse_value"}) {  // the importer makes sparse tensors dense
    if (const Tensor* value = node.tensor_attr(name)) return *value;
  }
  if (node.has_attr("value_float")) return Tensor::scalar<float>(node.float_attr("value_float", 0));
  if (node.has_attr("value_floats")) return vector_of(node.floats_attr("value_floats"));
  if (node.has_attr("value_int")) return Tensor::scalar<int64_t>(node.int_attr("value_int", 0));
  if (node.has_attr("value_ints")) return vector_of(node.ints_attr("value_ints"));
  if (node.has_attr("value_string")) return strings_of({}, {node.string_attr("value_string", "")});
  if (const auto it = node.attrs.find("value_strings"); it != node.attrs.end()) {
    const auto* values = std::get_if<std::vector<std::string>>(&it->second);
    if (values == nullptr) node_error(node, "attribute value_strings must be a list of strings");
    return strings_of({static_cast<int64_t>(values->size())}, *values);
  }
  node_error(node,
             "no value; one of the attributes value, value_float(s), value_int(s), value_string(s) must be given");
}

std::vector<ValueId> expand(ExpandContext& ctx) { return {ctx.builder.constant(value_of(ctx.node), ctx.node.name)}; }

}  // namespace

KILTER_OP(Constant){
    .name = "Constant",
    .min_inputs = 0,
    .max_inputs = 0,
    .attrs = {{"value", "tensor", ""},
              {"value_float", "float", ""},
              {"value_floats", "floats", ""},
              {"value_int", "int", ""},
              {"value_ints", "ints", ""},
              {"value_string", "string", ""},
              {"value_strings", "strings", ""},
              {"sparse_value", "tensor", ""}},
    .summary = "y = the value of the one attribute that is given; becomes a constant of the graph.",
    .expand = expand,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"| value_float=1.5", "| value_floats=[1.5,2.5]", "| value_int=7", "| value_ints=[1,2,3] | 13"},
};

}  // namespace kilter
