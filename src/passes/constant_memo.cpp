#include "passes/constant_memo.h"

#include <algorithm>

namespace kilter {

ConstantMemo::ConstantMemo(std::shared_ptr<const OpenGraph> network) : network_(std::move(network)) { keep(*network_); }

void ConstantMemo::keep(const OpenGraph& graph) {
  for (const OpenValue& value : graph.values) {
    if (value.constant && value.constant->dtype() != DType::string) kept_.insert(value.constant->raw());
  }
  for (const OpenNode& node : graph.nodes) {
    for (const Region& region : node.regions) keep(*region.graph);
  }
}

std::vector<Tensor> ConstantMemo::get(const std::string& computation, std::span<const Tensor> operands,
                                      const Make& make) {
  constexpr int64_t kLeastBytes = 1024;  // smaller ones are computed faster than they are found
  Key key{computation, {}};
  int64_t most = 0;
  for (const Tensor& operand : operands) {
    key.second.emplace_back();
    if (!operand.defined()) continue;
    if (operand.dtype() == DType::string || !is_kept(operand)) return make();
    most = std::max(most, operand.bytes());
    key.second.back() = {operand.raw(), operand.dtype(), operand.shape()};
  }
  if (most < kLeastBytes) return make();
  if (const auto known = results_.find(key); known != results_.end()) return known->second;
  std::vector<Tensor> made = make();
  if (std::ranges::any_of(made, [](const Tensor& t) { return t.dtype() == DType::string; })) return made;
  for (const Tensor& tensor : made) {
    if (!tensor.defined() || tensor.bytes() == 0) continue;
    if (kept_.insert(tensor.raw()).second) bytes_ += tensor.bytes();
  }
  return results_.emplace(std::move(key), std::move(made)).first->second;
}

}  // namespace kilter
