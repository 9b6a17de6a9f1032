#include "ops/op.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "ops/table.h"

namespace kilter {
namespace {

using Key = std::pair<std::string_view, std::string_view>;  // domain, name

Key key(const OpDef* op) { return {op->domain, op->name}; }

const std::vector<const OpDef*>& sorted_ops() {
  static const std::vector<const OpDef*> ops = [] {
    std::vector<const OpDef*> rows(op_rows().begin(), op_rows().end());
    std::sort(rows.begin(), rows.end(), [](const OpDef* a, const OpDef* b) {
      return std::tuple(a->domain, a->name, a->since) < std::tuple(b->domain, b->name, b->since);
    });
    return rows;
  }();
  return ops;
}

}  // namespace

std::string_view name(Family family) {
  switch (family) {
    case Family::reference:
      return "reference";
    case Family::map:
      return "map";
    case Family::movement:
      return "movement";
    case Family::reshape:
      return "reshape";
    case Family::reduce:
      return "reduce";
    case Family::matmul:
      return "matmul";
    case Family::conv:
      return "conv";
    case Family::conv_transpose:
      return "conv_transpose";
    case Family::pool:
      return "pool";
    case Family::softmax:
      return "softmax";
    case Family::normalize:
      return "normalize";
    case Family::gather:
      return "gather";
    case Family::resize:
      return "resize";
    case Family::channels:
      return "channels";
    case Family::scatter:
      return "scatter";
    case Family::arg:
      return "arg";
    case Family::sample:
      return "sample";
  }
  return "?";
}

void node_error(const Node& node, const std::string& text) { fail(ErrorKind::bad_model, "{}: {}", label(node), text); }

const TensorType& InferContext::type(size_t i) const {
  if (!has(i)) error(fmt::format("input {} is missing", i));
  return *inputs_[i];
}

const Tensor& InferContext::needed(size_t i) const {
  if (!has(i)) error(fmt::format("input {} is missing", i));
  const Tensor* known = value(i);
  if (known == nullptr) throw NeedsValue{static_cast<int32_t>(i)};
  return *known;
}

void InferContext::set(size_t output, DType type, Shape shape) {
  if (output < outputs.size()) outputs[output] = TensorType{type, std::move(shape), {}};
}

std::span<const OpDef* const> all_ops() { return sorted_ops(); }

const OpDef* find_op(std::string_view domain, std::string_view name, int32_t opset) {
  const Key wanted{domain == "ai.onnx" ? std::string_view() : domain, name};
  const auto& ops = sorted_ops();
  auto it = std::lower_bound(ops.begin(), ops.end(), wanted, [](const OpDef* op, const Key& k) { return key(op) < k; });
  for (; it != ops.end() && key(*it) == wanted; ++it) {
    if ((*it)->since <= opset && opset <= (*it)->until) return *it;
  }
  return nullptr;
}

}  // namespace kilter
