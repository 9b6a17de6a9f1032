#include "onnx/four_bits.h"

#include <algorithm>

#include "base/error.h"
#include "ops/op.h"

namespace kilter::onnx {
namespace {

constexpr int32_t kUint4 = 21;
constexpr int32_t kInt4 = 22;

/// Returns whether the results of a node are elements of its first operand.
bool moves(const OpDef& op) {
  return op.family == Family::reshape || op.movement == Movement::transpose || op.movement == Movement::slice;
}

/// Returns whether a node converts the values of its first operand to the type of a result that is not 4 bits wide.
bool converts(const pb::NodeProto& node) {
  const std::string& op = node.op_type();
  return normal_domain(node.domain()).empty() && (op == "DequantizeLinear" || op == "Cast" || op == "CastLike");
}

}  // namespace

bool is_four_bits(int32_t number) { return number == kUint4 || number == kInt4; }

Tensor unpack_four_bits(std::span<const std::byte> bytes, DType type, Shape shape) {
  Tensor tensor(type, std::move(shape));
  for (int64_t i = 0; i < tensor.elems(); ++i) {
    const int half = std::to_integer<int>(bytes[static_cast<size_t>(i / 2)]) >> (i % 2 * 4) & 15;
    tensor.raw()[i] = static_cast<std::byte>(type == DType::i8 && half > 7 ? half - 16 : half);
  }
  return tensor;
}

bool FourBitValues::check(const pb::NodeProto& node, const OpDef* op, std::span<const ValueId> inputs,
                          const std::string& file) const {
  for (const auto& attribute : node.attribute()) {
    if (!attribute.has_t() || !is_four_bits(attribute.t().data_type())) continue;
    fail(ErrorKind::unsupported, "{}: {}: attribute {} has element type {}; only Constant may have such a tensor", file,
         node_text(node), quote(attribute.name()), element_type_text(attribute.t().data_type()));
  }
  if (std::ranges::none_of(inputs, [&](ValueId v) { return contains(v); })) return false;
  const bool like = node.op_type() == "CastLike" && inputs.size() > 1 && contains(inputs[1]);
  if (converts(node) && !like) return false;
  if (op != nullptr && moves(*op) && contains(inputs[0])) return true;
  fail(ErrorKind::unsupported,
       "{}: {}: reads 4-bit integers; Kilter reads them in DequantizeLinear, Cast, CastLike and nodes that only move "
       "elements; convert the tensor to 8 bits",
       file, node_text(node));
}

}  // namespace kilter::onnx
