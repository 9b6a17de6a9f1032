#include "ops/support/formulas.h"

namespace kilter {
namespace {

bool has_nan(const Tensor& tensor) {
  for (int64_t i = 0; i < tensor.elems(); ++i) {
    if (std::isnan(tensor.as_double(i))) return true;
  }
  return false;
}

}  // namespace

std::optional<Expr> extreme_of(const OpView& op, std::span<const Expr> in, Op which) {
  // min and max return their second operand if either is NaN. A first operand that may be NaN needs a check, so
  // constants are put first.
  std::vector<size_t> order;
  bool safe = !is_float(in[0].elem());
  for (size_t k = 0; k < in.size(); ++k) {
    const Tensor* value = op.values[k];
    const bool constant = value != nullptr && value->elems() <= 4096 && !has_nan(*value);
    if (constant && !safe) {
      order.insert(order.begin(), k);
      safe = true;
    } else {
      order.push_back(k);
    }
  }
  Expr result = wide(in[order[0]]);
  for (size_t i = 1; i < order.size(); ++i) {
    const Expr x = wide(in[order[i]]);
    const Expr chosen = binary(which, result, x);
    result = safe ? chosen : select(unary(Op::is_nan, result), result, chosen);
    safe = !is_float(x.elem());
  }
  return cast(op.outputs[0].dtype, result);
}

}  // namespace kilter
