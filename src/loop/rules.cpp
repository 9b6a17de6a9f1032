#include "loop/rules.h"

#include <cmath>

namespace kilter::rules {
namespace {

bool is_int_value(const Expr& e, int64_t value) { return e->kind == ExprKind::int_imm && e->ival == value; }
bool is_float_value(const Expr& e, double value) {
  return e->kind == ExprKind::float_imm && e->fval == value && std::signbit(e->fval) == std::signbit(value);
}
bool is_int_imm(const Expr& e) { return e->kind == ExprKind::int_imm; }
bool is_binary(const Expr& e, Op op) { return e->kind == ExprKind::binary && e->op == op; }

bool commutes(Op op) {
  switch (op) {
    case Op::add:
    case Op::mul:
    case Op::bit_and:
    case Op::bit_or:
    case Op::bit_xor:
    case Op::eq:
    case Op::ne:
    case Op::logical_and:
    case Op::logical_or:
      return true;
    default:
      return false;
  }
}

/// Returns whether the two expressions certainly have the same value in one evaluation, because they are one node or
/// equal small trees.
bool same_value(const Expr& a, const Expr& b, int depth = 6) {
  if (a.get() == b.get()) return true;
  if (depth == 0 || a->kind != b->kind || a->op != b->op || a->id != b->id || a->ival != b->ival ||
      a->type != b->type || a->fval != b->fval || a->args.size() != b->args.size() || a->picks != b->picks) {
    return false;
  }
  for (size_t i = 0; i < a->args.size(); ++i) {
    if (!same_value(a->args[i], b->args[i], depth - 1)) return false;
  }
  return true;
}

Expr zero_of(const Expr& e) { return imm_int(e.elem(), 0, e.lanes()); }

/// Merges the two constants of (x op c1) op c2, where possible.
Expr merge_constants(Op op, const Expr& a, const Expr& b) {
  if (!is_int_imm(b) || !is_binary(a, op) || !is_int_imm(a->args[1])) return {};
  return binary(op, a->args[0], binary(op, a->args[1], b));
}

Expr add_rules(const Expr& a, const Expr& b) {
  if (is_int_value(b, 0)) return a;
  if (Expr merged = merge_constants(Op::add, a, b); merged.defined()) return merged;
  if (is_binary(b, Op::add) && is_int_imm(b->args[1])) {  // x + (y + c): the constant goes outermost
    return binary(Op::add, binary(Op::add, a, b->args[0]), b->args[1]);
  }
  if (is_binary(a, Op::add) && is_int_imm(a->args[1])) {
    return binary(Op::add, binary(Op::add, a->args[0], b), a->args[1]);
  }
  return {};
}

Expr sub_rules(const Expr& a, const Expr& b) {
  if (same_value(a, b)) return zero_of(a);
  if (is_int_imm(b)) return binary(Op::add, a, unary(Op::neg, b));
  if (is_binary(a, Op::add) && is_int_imm(a->args[1])) {
    return binary(Op::add, binary(Op::sub, a->args[0], b), a->args[1]);
  }
  if (is_binary(b, Op::add) && is_int_imm(b->args[1])) {
    return binary(Op::add, binary(Op::sub, a, b->args[0]), unary(Op::neg, b->args[1]));
  }
  return {};
}

Expr int_rules(Op op, const Expr& a, const Expr& b) {
  switch (op) {
    case Op::add:
      return add_rules(a, b);
    case Op::sub:
      return sub_rules(a, b);
    case Op::mul:
      if (is_int_value(b, 1)) return a;
      if (is_int_value(b, 0)) return b;
      return merge_constants(Op::mul, a, b);
    case Op::div:
      if (is_int_value(b, 1)) return a;
      if (is_int_value(b, 0) || is_int_value(a, 0)) return zero_of(a);
      return {};
    case Op::mod:
      if (is_int_value(b, 1) || is_int_value(b, 0) || is_int_value(a, 0)) return zero_of(a);
      return {};
    case Op::min:
    case Op::max:
      if (same_value(a, b)) return a;
      if (is_int_imm(a)) return binary(op, b, a);
      return merge_constants(op, a, b);
    case Op::bit_and:
      if (is_int_value(b, 0)) return b;
      return {};
    case Op::bit_or:
    case Op::bit_xor:
    case Op::shl:
    case Op::shr:
      if (is_int_value(b, 0)) return a;
      return {};
    default:
      return {};
  }
}

Expr float_rules(Op op, const Expr& a, const Expr& b) {
  if ((op == Op::mul || op == Op::div) && is_float_value(b, 1.0)) return a;
  if (op == Op::mul && is_float_value(a, 1.0)) return b;
  if (op == Op::sub && is_float_value(b, 0.0)) return a;
  if (op == Op::add && is_float_value(b, -0.0)) return a;
  if (op == Op::add && is_float_value(a, -0.0)) return b;
  return {};
}

Expr bool_rules(Op op, const Expr& a, const Expr& b) {
  if (op == Op::logical_and) {
    if (is_int_imm(b)) return b->ival != 0 ? a : b;
    if (a.get() == b.get()) return a;
  }
  if (op == Op::logical_or) {
    if (is_int_imm(b)) return b->ival != 0 ? b : a;
    if (a.get() == b.get()) return a;
  }
  return {};
}

/// Keeps ramp(b, s) + splat, ramp(b, s) * splat and ramp + ramp as ramps.
Expr ramp_rules(Op op, const Expr& a, const Expr& b) {
  if (op != Op::add && op != Op::sub && op != Op::mul) return {};
  const bool left = a->kind == ExprKind::ramp;
  const bool right = b->kind == ExprKind::ramp;
  if (left && right && op != Op::mul) {
    return ramp(binary(op, a->args[0], b->args[0]), binary(op, a->args[1], b->args[1]), a.lanes());
  }
  if (left == right) return {};
  const Expr scalar = splat_of(left ? b : a);
  if (!scalar.defined()) return {};
  const Expr& r = left ? a : b;
  const Expr base = left ? binary(op, r->args[0], scalar) : binary(op, scalar, r->args[0]);
  if (op == Op::mul) return ramp(base, binary(op, r->args[1], scalar), r.lanes());
  const Expr stride = (op == Op::sub && right) ? unary(Op::neg, r->args[1]) : r->args[1];
  return ramp(base, stride, r.lanes());
}

}  // namespace

Expr simplify_binary(Op op, const Expr& a, const Expr& b) {
  if (a.lanes() > 1) {
    const Expr x = splat_of(a);
    const Expr y = x.defined() ? splat_of(b) : Expr();
    if (x.defined() && y.defined()) return broadcast(binary(op, x, y), a.lanes());
    if (Expr r = ramp_rules(op, a, b); r.defined()) return r;
  }
  if (is_float(a.elem())) return float_rules(op, a, b);
  if (is_int_imm(a) && commutes(op)) return binary(op, b, a);
  return a.elem() == DType::boolean ? bool_rules(op, a, b) : int_rules(op, a, b);
}

}  // namespace kilter::rules
