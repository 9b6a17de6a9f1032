#include "ops/support/fold.h"

#include <algorithm>

namespace kilter {
namespace {

/// Costs saturate at this value, so that sums and products of several costs do not overflow.
constexpr int64_t kMost = int64_t{1} << 60;

int64_t product(int64_t a, int64_t b) { return a != 0 && b > kMost / a ? kMost : a * b; }

/// Whether a reference kernel reads each element of its operands at most a few times.
bool linear(Family family) {
  switch (family) {
    case Family::map:
    case Family::movement:
    case Family::reshape:
    case Family::reduce:
    case Family::softmax:
    case Family::normalize:
    case Family::gather:
    case Family::scatter:
    case Family::channels:
    case Family::arg:
      return true;
    default:
      return false;
  }
}

}  // namespace

int64_t fold_work(const OpView& node) {
  int64_t from = 0, to = 0;
  for (const TensorType& in : node.inputs) from += elems(in.shape);
  for (const TensorType& out : node.outputs) to += elems(out.shape);
  if (node.node.op->flops != nullptr) return std::max({node.node.op->flops(node), from, to});
  return linear(node.node.op->family) ? from + to : std::max(product(from, to), from + to);
}

bool FoldBudget::take(const OpView& node) {
  int64_t made = 0;
  for (const TensorType& out : node.outputs) made += elems(out.shape) * std::max<int64_t>(size_bytes(out.dtype), 1);
  const int64_t cost = fold_work(node);
  if (made > bytes || cost > work) return false;
  bytes -= made, work -= cost;
  return true;
}

}  // namespace kilter
