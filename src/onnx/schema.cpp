#include "onnx/schema.h"

#include <array>

#include "base/error.h"
#include "base/text.h"
#include "ops/support/onnx_dtype.h"

namespace kilter::onnx {
namespace {

/// The element types, indexed by TensorProto.data_type.
constexpr std::array<std::string_view, 29> kElementTypes = {
    "undefined",  "float",        "uint8",          "int8",       "uint16",         "int16",  "int32",     "int64",
    "string",     "bool",         "float16",        "double",     "uint32",         "uint64", "complex64", "complex128",
    "bfloat16",   "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4",  "int4",      "float4e2m1",
    "float8e8m0", "uint2",        "int2",           "float6e2m3", "float6e3m2"};

constexpr std::array<std::string_view, 15> kAttributeKinds = {
    "UNDEFINED", "FLOAT",   "INT",    "STRING",        "TENSOR",         "GRAPH",      "FLOATS",     "INTS",
    "STRINGS",   "TENSORS", "GRAPHS", "SPARSE_TENSOR", "SPARSE_TENSORS", "TYPE_PROTO", "TYPE_PROTOS"};

}  // namespace

std::string_view attribute_kind_name(int32_t kind) {
  if (kind < 0 || static_cast<size_t>(kind) >= kAttributeKinds.size()) return "unknown";
  return kAttributeKinds[static_cast<size_t>(kind)];
}

std::optional<DType> dtype_of_number(int32_t number) { return dtype_of_code(number); }

int32_t number_of_dtype(DType type) { return static_cast<int32_t>(code_of_dtype(type)); }

std::string element_type_text(int32_t number) {
  const bool known = number >= 0 && static_cast<size_t>(number) < kElementTypes.size();
  return fmt::format("{} ({})", known ? kElementTypes[static_cast<size_t>(number)] : "unknown", number);
}

DType require_dtype(int32_t number, const std::string& file, const std::string& what) {
  if (const auto type = dtype_of_number(number)) return *type;
  if (number == 0) {
    fail(ErrorKind::bad_model, "{}: {} has no element type; export the model again", file, what);
  }
  fail(ErrorKind::unsupported,
       "{}: {} has element type {}; Kilter reads all but complex numbers and floats of 6 bits; convert the "
       "tensor to another type",
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
