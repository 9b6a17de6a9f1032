// The cost of an operation in vector instructions. Elementary functions count as the instructions that the code
// generator's passes expand them to.
#include <array>

#include "loop/node_map.h"
#include "loop/passes/math.h"
#include "schedule/model/loop_count.h"

namespace kilter {
namespace {

constexpr size_t kOps = static_cast<size_t>(Op::logical_or) + 1;
constexpr size_t kFirstBinary = static_cast<size_t>(Op::add);

/// The instructions that an operation needs on every target.
struct Cost {
  double divisions = 0;  ///< divisions and square roots, whose cost depends on the target
  double others = 0;
};

bool divides(Op op) { return op == Op::div || op == Op::sqrt || op == Op::mod; }
Cost cost_of(bool division) { return division ? Cost{1, 0} : Cost{0, 1}; }

void add_arithmetic(const Expr& e, NodeMap<bool>& seen, Cost& cost) {
  if (e->args.empty() || seen[e.get()]) return;
  seen[e.get()] = true;
  const bool computes = e->kind == ExprKind::unary || e->kind == ExprKind::binary || e->kind == ExprKind::fma ||
                        e->kind == ExprKind::select || e->kind == ExprKind::cast;
  if (computes) (e->kind != ExprKind::fma && divides(e->op) ? cost.divisions : cost.others) += 1;
  for (const Expr& a : e->args) add_arithmetic(a, seen, cost);
}

Cost expanded(Op op, DType type) {
  if (!loop_passes::has_math(op, type)) return cost_of(true);  // no kernel uses it
  const Expr x = var_expr({type, 1}, 0), y = var_expr({type, 1}, 1);
  const Expr made = static_cast<size_t>(op) < kFirstBinary ? loop_passes::expand_unary(op, x)
                    : op == Op::pow || op == Op::mod       ? loop_passes::expand_binary(op, x, y)
                                                           : Expr();
  if (!made.defined()) return cost_of(divides(op));
  NodeMap<bool> seen;
  Cost cost;
  add_arithmetic(made, seen, cost);
  return cost;
}

using Costs = std::array<Cost, kOps>;

Costs costs_of(DType type) {
  Costs out{};
  for (size_t op = 0; op < kOps; ++op) out[op] = expanded(static_cast<Op>(op), type);
  return out;
}

}  // namespace

double operation_cost(Op op, DType type, const CpuLimits& limits) {
  static const Costs kSingle = costs_of(DType::f32), kDouble = costs_of(DType::f64);
  const Cost cost =
      is_float(type) ? (type == DType::f64 ? kDouble : kSingle)[static_cast<size_t>(op)] : cost_of(divides(op));
  return cost.others + cost.divisions * limits.division_cost;
}

}  // namespace kilter
