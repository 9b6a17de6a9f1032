// The cost of an operation in vector instructions. Elementary functions count as the instructions that the code
// generator's passes expand them to.
#include <array>

#include "loop/node_map.h"
#include "loop/passes/math.h"
#include "schedule/model/loop_count.h"

namespace kilter {
namespace {

constexpr double kDivision = 8;  ///< a division or square root takes as long as this many additions
constexpr size_t kOps = static_cast<size_t>(Op::logical_or) + 1;
constexpr size_t kFirstBinary = static_cast<size_t>(Op::add);

bool divides(Op op) { return op == Op::div || op == Op::sqrt || op == Op::mod; }

double arithmetic(const Expr& e, NodeMap<bool>& seen) {
  if (e->args.empty() || seen[e.get()]) return 0;
  seen[e.get()] = true;
  const bool computes = e->kind == ExprKind::unary || e->kind == ExprKind::binary || e->kind == ExprKind::fma ||
                        e->kind == ExprKind::select || e->kind == ExprKind::cast;
  double cost = !computes ? 0 : e->kind != ExprKind::fma && divides(e->op) ? kDivision : 1;
  for (const Expr& a : e->args) cost += arithmetic(a, seen);
  return cost;
}

double expanded(Op op, DType type) {
  if (!loop_passes::has_math(op, type)) return kDivision;  // no kernel uses it
  const Expr x = var_expr({type, 1}, 0), y = var_expr({type, 1}, 1);
  const Expr made = static_cast<size_t>(op) < kFirstBinary ? loop_passes::expand_unary(op, x)
                    : op == Op::pow || op == Op::mod       ? loop_passes::expand_binary(op, x, y)
                                                           : Expr();
  NodeMap<bool> seen;
  return made.defined() ? arithmetic(made, seen) : divides(op) ? kDivision : 1;
}

using Costs = std::array<double, kOps>;

Costs costs_of(DType type) {
  Costs out{};
  for (size_t op = 0; op < kOps; ++op) out[op] = expanded(static_cast<Op>(op), type);
  return out;
}

}  // namespace

double operation_cost(Op op, DType type) {
  if (!is_float(type)) return divides(op) ? kDivision : 1;
  static const Costs kSingle = costs_of(DType::f32), kDouble = costs_of(DType::f64);
  return (type == DType::f64 ? kDouble : kSingle)[static_cast<size_t>(op)];
}

}  // namespace kilter
