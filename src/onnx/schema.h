// The ONNX messages, and the numbers that the format gives to element types and attribute kinds.
#pragma once

#include <kilter_onnx.pb.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/dtype.h"

namespace kilter::onnx {

namespace pb = ::kilter::onnx_pb;

constexpr int64_t kOldestIr = 3;  ///< the first with opset_import and typed attributes
constexpr int64_t kNewestIr = 14;
constexpr int64_t kOldestOpset = 7;      ///< of ai.onnx, for which models are written
constexpr int64_t kOldestReadOpset = 1;  ///< of ai.onnx, in models that are read
constexpr int kMostDims = 64;            ///< of a tensor in a file

/// The values of AttributeProto.type.
enum AttributeKind : int32_t {
  kUndefinedAttr = 0,
  kFloatAttr = 1,
  kIntAttr = 2,
  kStringAttr = 3,
  kTensorAttr = 4,
  kGraphAttr = 5,
  kFloatsAttr = 6,
  kIntsAttr = 7,
  kStringsAttr = 8,
  kTensorsAttr = 9,
  kGraphsAttr = 10,
  kSparseTensorAttr = 11,
  kSparseTensorsAttr = 12,
  kTypeAttr = 13,
  kTypesAttr = 14,
};
std::string_view attribute_kind_name(int32_t kind);  ///< "INT", ...; "unknown" for other numbers

/// Returns the Kilter type of a TensorProto.data_type; nullopt for types that Kilter lacks and for unknown numbers.
std::optional<DType> dtype_of_number(int32_t number);
int32_t number_of_dtype(DType type);
/// Returns "float8e4m3fn (17)" or "unknown (99)".
std::string element_type_text(int32_t number);
/// Returns the type. Throws an error that names the number and `what` ("input 'x'"): bad_model when the file gives no
/// type, unsupported otherwise.
DType require_dtype(int32_t number, const std::string& file, const std::string& what);

/// Returns a name from a file in quotes, safe to print: control bytes as \xNN, cut after 120 bytes.
std::string quote(std::string_view name);
/// Returns the domain as the rest of Kilter spells it: "ai.onnx" is "".
inline std::string_view normal_domain(std::string_view domain) { return domain == "ai.onnx" ? "" : domain; }
/// Returns "Conv 'name'", or "Conv (output 'y')" for a node without a name; the domain precedes it unless it is
/// ai.onnx.
std::string node_text(const pb::NodeProto& node);

}  // namespace kilter::onnx
