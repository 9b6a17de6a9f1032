#include <bit>
#include <limits>

#include "base/hash.h"
#include "base/narrow.h"
#include "base/text.h"
#include "graph/op_def.h"
#include "graph/text.h"

namespace kilter {
namespace {

bool is_bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '/' || c == '-';
}

/// Returns "nan", with the bits of the element if they differ from the usual quiet NaN.
template <class Bits>
std::string nan_text(Bits bits, Bits usual) {
  return bits == usual ? "nan" : fmt::format("nan:{:x}", bits);
}

std::string float_text(float value) {
  if (value != value) return nan_text(std::bit_cast<uint32_t>(value), uint32_t{0x7fc00000});
  return format_float(value);
}

/// Returns the text with a mark that makes it read back as a float: "1.0".
std::string attr_float_text(float value) {
  std::string out = float_text(value);
  if (out.find_first_of(".en") == std::string::npos) out += ".0";
  return out;
}

template <class List, class F>
std::string list_text(const List& list, std::string_view empty, F&& f) {
  if (list.empty()) return std::string(empty);
  std::string out = "[";
  for (size_t i = 0; i < list.size(); ++i) {
    if (i > 0) out += ", ";
    out += f(list[i]);
  }
  return out + ']';
}

std::string value_ref(const Graph& graph, ValueId id) {
  return id == kNone ? "_" : "%" + name_text(graph.value(id).name);
}

std::string node_text(const Graph& graph, const Node& node) {
  std::string out;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (i > 0) out += ", ";
    out += value_ref(graph, node.outputs[i]);
    if (node.outputs[i] != kNone) out += ": " + text(graph.type(node.outputs[i]));
  }
  out += " = ";
  if (!node.op->domain.empty()) out += fmt::format("{}::", name_text(node.op->domain));
  out += fmt::format("{}@{} {}", name_text(node.op->name), node.opset, in_quotes(node.name));
  if (!node.attrs.empty()) {
    out += " {";
    bool first = true;
    for (const auto& [key, attr] : node.attrs) {
      out += fmt::format("{}{}={}", first ? "" : ", ", name_text(key), attr_text(attr));
      first = false;
    }
    out += '}';
  }
  out += '(';
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (i > 0) out += ", ";
    out += value_ref(graph, node.inputs[i]);
  }
  out += ')';
  if (node.group != kNone) out += fmt::format(" group {}", node.group);
  return out;
}

}  // namespace

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string name_text(std::string_view name) {
  bool bare = !name.empty() && name != "_";
  for (char c : name) bare = bare && is_bare(c);
  return bare ? std::string(name) : in_quotes(name);
}

std::string element_text(const Tensor& tensor, int64_t i) {
  if (const DType type = tensor.dtype(); is_narrow(type) && !is_narrow_integer(type)) {
    const uint8_t code = tensor.data<uint8_t>()[i];
    const float wide = narrow_value(type, code);
    return wide != wide ? nan_text<unsigned>(code, narrow_code(type, static_cast<double>(wide))) : format_float(wide);
  }
  switch (tensor.dtype()) {
    case DType::f32:
      return float_text(tensor.data<float>()[i]);
    case DType::f64: {
      const double value = tensor.data<double>()[i];
      if (value != value) return nan_text(std::bit_cast<uint64_t>(value), uint64_t{0x7ff8000000000000});
      return format_float(value);
    }
    case DType::f16: {
      const Half value = tensor.data<Half>()[i];
      const auto wide = static_cast<float>(value);
      return wide != wide ? nan_text(value.bits, uint16_t{0x7e00}) : format_float(wide);
    }
    case DType::bf16: {
      const BFloat16 value = tensor.data<BFloat16>()[i];
      const auto wide = static_cast<float>(value);
      return wide != wide ? nan_text(value.bits, uint16_t{0x7fc0}) : format_float(wide);
    }
    case DType::boolean:
      return tensor.data<bool>()[i] ? "true" : "false";
    case DType::string:
      return in_quotes(tensor.strings()[static_cast<size_t>(i)]);
    case DType::u64:
      return fmt::format("{}", tensor.data<uint64_t>()[i]);
    default:
      return fmt::format("{}", tensor.as_int(i));
  }
}

std::string tensor_text(const Tensor& tensor, const Layout& layout) {
  std::string out = text(TensorType{tensor.dtype(), tensor.shape(), layout});
  if (tensor.elems() > kMaxPrintedElems) return out + fmt::format("#{:016x}", content_hash(tensor));
  out += '(';
  for (int64_t i = 0; i < tensor.elems(); ++i) {
    if (i > 0) out += ", ";
    out += element_text(tensor, i);
  }
  return out + ')';
}

std::string attr_text(const Attr& attr) {
  struct Visitor {
    std::string operator()(int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(float v) const { return attr_float_text(v); }
    std::string operator()(const std::string& v) const { return in_quotes(v); }
    std::string operator()(const std::vector<int64_t>& v) const {
      return list_text(v, "[]", [](int64_t x) { return fmt::format("{}", x); });
    }
    std::string operator()(const std::vector<float>& v) const { return list_text(v, "floats[]", attr_float_text); }
    std::string operator()(const std::vector<std::string>& v) const {
      return list_text(v, "strings[]", [](const std::string& x) { return in_quotes(x); });
    }
    std::string operator()(const Tensor& v) const { return tensor_text(v); }
  };
  return std::visit(Visitor{}, attr);
}

uint64_t content_hash(const Tensor& tensor) {
  uint64_t hash = hash_text(text(TensorType{tensor.dtype(), tensor.shape(), {}}));
  if (tensor.dtype() != DType::string) return hash_bytes({tensor.raw(), static_cast<size_t>(tensor.bytes())}, hash);
  for (const std::string& s : tensor.strings()) hash = hash_combine(hash, hash_text(s));
  return hash;
}

std::string print(const Graph& graph) {
  std::string out = fmt::format("graph {} {{\n", in_quotes(graph.name));
  for (ValueId id : graph.inputs()) {
    out += fmt::format("  input {}: {}\n", value_ref(graph, id), text(graph.type(id)));
  }
  for (ValueId id = 0; id < static_cast<ValueId>(graph.value_count()); ++id) {
    const Value& value = graph.value(id);
    if (!value.dead && value.constant) {
      out += fmt::format("  const {}: {}\n", value_ref(graph, id), tensor_text(*value.constant, value.type.layout));
    }
  }
  for (NodeId id : graph.order()) out += "  " + node_text(graph, graph.node(id)) + "\n";
  for (const Graph::Output& output : graph.outputs()) {
    out += fmt::format("  output {} {}\n", in_quotes(output.name), value_ref(graph, output.value));
  }
  return out + "}\n";
}

}  // namespace kilter
