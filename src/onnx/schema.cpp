#include "onnx/schema.h"

#include <array>

#include "base/error.h"
#include "base/text.h"

namespace kilter::onnx {
namespace {

struct ElementType {
  std::string_view name;
  std::optional<DType> type;
};

/// The element types, indexed by TensorProto.data_type.
constexpr std::array<ElementType, 29> kElementTypes = {{
    {"undefined", {}},
    {"float", DType::f32},
    {"uint8", DType::u8},
    {"int8", DType::i8},
    {"uint16", DType::u16},
    {"int16", DType::i16},
    {"int32", DType::i32},
    {"int64", DType::i64},
    {"string", DType::string},
    {"bool", DType::boolean},
    {"float16", DType::f16},
    {"double", DType::f64},
    {"uint32", DType::u32},
    {"uint64", DType::u64},
    {"complex64", {}},
    {"complex128", {}},
    {"bfloat16", DType::bf16},
    {"float8e4m3fn", {}},
    {"float8e4m3fnuz", {}},
    {"float8e5m2", {}},
    {"float8e5m2fnuz", {}},
    {"uint4", DType::u8},
    {"int4", DType::i8},
    {"float4e2m1", {}},
    {"float8e8m0", {}},
    {"uint2", {}},
    {"int2", {}},
    {"float6e2m3", {}},
    {"float6e3m2", {}},
}};

constexpr std::array<std::string_view, 15> kAttributeKinds = {
    "UNDEFINED", "FLOAT",   "INT",    "STRING",        "TENSOR",         "GRAPH",      "FLOATS",     "INTS",
    "STRINGS",   "TENSORS", "GRAPHS", "SPARSE_TENSOR", "SPARSE_TENSORS", "TYPE_PROTO", "TYPE_PROTOS"};

const ElementType* find(int32_t number) {
  if (number < 0 || static_cast<size_t>(number) >= kElementTypes.size()) return nullptr;
  return &kElementTypes[static_cast<size_t>(number)];
}

}  // namespace

std::string_view attribute_kind_name(int32_t kind) {
  if (kind < 0 || static_cast<size_t>(kind) >= kAttributeKinds.size()) return "unknown";
  return kAttributeKinds[static_cast<size_t>(kind)];
}

std::optional<DType> dtype_of_number(int32_t number) {
  const ElementType* found = find(number);
  return found == nullptr ? std::nullopt : found->type;
}

int32_t number_of_dtype(DType type) {
  for (size_t i = 0; i < kElementTypes.size(); ++i) {
    if (kElementTypes[i].type == type) return static_cast<int32_t>(i);
  }
  fail(ErrorKind::internal, "element type {} has no ONNX number", name(type));
}

std::string element_type_text(int32_t number) {
  const ElementType* found = find(number);
  return fmt::format("{} ({})", found == nullptr ? "unknown" : found->name, number);
}

DType require_dtype(int32_t number, const std::string& file, const std::string& what) {
  if (const auto type = dtype_of_number(number)) return *type;
  if (number == 0) {
    fail(ErrorKind::bad_model, "{}: {} has no element type; export the model again", file, what);
  }
  fail(ErrorKind::unsupported,
       "{}: {} has element type {}; Kilter reads float, double, float16, bfloat16, bool, string and 8- to 64-bit "
       "integers; convert the tensor to one of these",
       file, what, element_type_text(number));
}

std::string quote(std::string_view name) {
  constexpr size_t kMost = 120;
  return fmt::format("'{}{}'", printable(name.substr(0, kMost)), name.size() > kMost ? "..." : "");
}

std::string node_text(const pb::NodeProto& node) {
  std::string text;
  const auto domain = normal_domain(node.domain());
  const std::string op = quote(node.op_type());
  if (!domain.empty()) {
    const std::string shown = quote(domain);
    text += shown.substr(1, shown.size() - 2) + ":";
  }
  text += op.substr(1, op.size() - 2);
  if (!node.name().empty()) return text + " " + quote(node.name());
  for (const auto& output : node.output()) {
    if (!output.empty()) return text + " (output " + quote(output) + ")";
  }
  return text + " (without name)";
}

}  // namespace kilter::onnx
