#include "ops/op.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "ops/support/table.h"

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
