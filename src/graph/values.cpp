#include "graph/values.h"

namespace kilter {

const Tensor* constant_of(const Graph& graph, ValueId id) {
  if (id == kNone) return nullptr;
  const std::optional<Tensor>& held = graph.value(id).constant;
  return held ? &*held : nullptr;
}

bool same_elements(const TensorType& a, const TensorType& b) { return a.dtype == b.dtype && a.shape == b.shape; }

Tensor elements_of(const TensorType& type, const Tensor& stored) {
  if (!type.layout.stored) return stored;
  if (type.layout.stored != DType::u8) return stored.widened();
  Tensor out(type.dtype, stored.shape());
  for (int64_t i = 0; i < out.elems(); ++i)
    out.data<float>()[i] = static_cast<float>(stored.data<uint8_t>()[i] - type.layout.zero);
  return out;
}

std::string replacement_fault(const Graph& graph, ValueId from, ValueId to) {
  const Value &a = graph.value(from), &b = graph.value(to);
  if (same_elements(a.type, b.type)) return "";
  const auto made = [&](const Value& v) {
    if (v.producer != kNone) return " computed by " + label(graph.node(v.producer));
    return std::string(v.constant ? ", a constant" : "");
  };
  return fmt::format(
      "'{}' of type {}{} cannot be replaced by '{}' of type {}{}; a replacement must have the element type and shape "
      "of what it replaces",
      a.name, text(a.type), made(a), b.name, text(b.type), made(b));
}

}  // namespace kilter
