// Replaces elementary functions, and dot() if the target has no instruction for it, by arithmetic. Expressions that the
// expansions of one statement share are named by lets in front of it, so that the text stays short and nothing is
// computed twice.
//
//   y[i] = tanh(x[i])      →      let m = 2 * min(9.2, abs(x[i]))
//                                 let t = fma(m, log2e, magic)
//                                 let s = ...
//                                 y[i] = ... / ...
#include <unordered_map>

#include "base/error.h"
#include "loop/passes/math.h"
#include "loop/passes/math_form.h"
#include "loop/passes/passes.h"
#include "loop/passes/rewrite.h"
#include "loop/small_float.h"

namespace kilter::loop_passes {
namespace {

/// Returns whether the operation has no machine instruction.
bool needs_expansion(Op op, DType type) {
  return (op >= Op::exp && op <= Op::expm1) || op == Op::pow || (op == Op::mod && is_float(type));
}

/// Computes f32 results in f64 and rounds them: in f32, the subtractions would cancel too much.
template <class F>
Expr through_f64(const Expr& x, F function) {
  if (x.elem() == DType::f64) return function(form_of(x), x);
  return cast(DType::f32, function(Form{DType::f64, x.lanes(), false}, cast(DType::f64, x)));
}

class Expander {
 public:
  Expander(const LoopFunc& func, const CpuLimits& limits) : limits_(limits), result_(func) {}

  LoopFunc run() {
    result_.body = block(result_.body);
    return std::move(result_);
  }

 private:
  std::vector<Stmt> block(const std::vector<Stmt>& in) {
    std::vector<Stmt> out;
    out.reserve(in.size());
    for (const Stmt& s : in) statement(s, out);
    return out;
  }

  void statement(const Stmt& s, std::vector<Stmt>& out) {
    memo_.clear();
    changed_ = false;
    StmtNode n = outline(*s);
    n.a = expanded(s->a);
    n.b = expanded(s->b);
    n.mask = expanded(s->mask);
    if (changed_) name_shared(n, out);
    const bool same = !changed_ && s->body.empty() && s->other.empty();
    n.body = block(s->body);
    n.other = block(s->other);
    out.push_back(same ? s : make_stmt(std::move(n)));
  }

  Expr expanded(const Expr& e) {
    if (!e.defined() || e->args.empty()) return e;
    const auto known = memo_.find(e.get());
    if (known != memo_.end()) return known->second;
    ExprArgs args;
    bool same = true;
    for (const Expr& a : e->args) {
      args.push_back(expanded(a));
      same = same && args.back().get() == a.get();
    }
    Expr result;
    if (e->kind == ExprKind::unary && needs_expansion(e->op, e->args[0].elem())) {
      result = expand_unary(e->op, args[0]);
      changed_ = true;
    } else if (e->kind == ExprKind::binary && needs_expansion(e->op, e->args[0].elem())) {
      result = expand_binary(e->op, args[0], args[1]);
      changed_ = true;
    } else if (e->kind == ExprKind::dot && !has_dot(*e, limits_)) {
      result = expand_dot(args[0], args[1], args[2]);
      changed_ = true;
    } else {
      result = same ? e : with_args(e, std::move(args));
    }
    memo_.emplace(e.get(), result);
    return result;
  }

  // Emits lets for the nodes with several users, inner ones first.
  void name_shared(StmtNode& n, std::vector<Stmt>& out) {
    uses_.clear();
    named_.clear();
    for (const Expr* e : {&n.a, &n.b, &n.mask}) count(*e);
    for (Expr* e : {&n.a, &n.b, &n.mask}) *e = named(*e, out);
  }

  void count(const Expr& e) {
    if (!e.defined() || uses_[e.get()]++ > 0) return;
    for (const Expr& a : e->args) count(a);
  }

  Expr named(const Expr& e, std::vector<Stmt>& out) {
    if (!e.defined() || e->args.empty()) return e;
    const auto known = named_.find(e.get());
    if (known != named_.end()) return known->second;
    ExprArgs args;
    bool same = true;
    for (const Expr& a : e->args) {
      args.push_back(named(a, out));
      same = same && args.back().get() == a.get();
    }
    Expr result = same ? e : with_args(e, std::move(args));
    if (uses_.at(e.get()) > 1 && !result->args.empty()) {
      const auto id = static_cast<int32_t>(result_.vars.size());
      result_.vars.push_back({fmt::format("m{}", id), result.type()});
      out.push_back(make_stmt({.kind = StmtKind::let, .id = id, .a = result}));
      result = var_expr(result.type(), id);
    }
    named_.emplace(e.get(), result);
    return result;
  }

  const CpuLimits& limits_;
  LoopFunc result_;
  std::unordered_map<const ExprNode*, Expr> memo_, named_;
  std::unordered_map<const ExprNode*, int> uses_;
  bool changed_ = false;
};

}  // namespace

bool has_math(Op op, DType type) {
  if (!needs_expansion(op, type) || type != DType::f64) return true;
  return op != Op::sin && op != Op::cos && op != Op::tan && op != Op::erf && op != Op::pow && op != Op::mod;
}

Expr expand_unary(Op op, const Expr& x) {
  if (!needs_expansion(op, x.elem())) return {};
  if (!has_math(op, x.elem())) fail(ErrorKind::internal, "no expansion of {} for {}", name(op), text(x.type()));
  if (is_small_float(x.elem())) return cast(x.elem(), expand_unary(op, cast(DType::f32, x)));
  const Form f = form_of(x);
  switch (op) {
    case Op::exp:
      return exp_of(f, x);
    case Op::log:
      return log_of(f, x);
    case Op::tanh:
      return tanh_of(f, x);
    case Op::erf:
      return erf_of(f, x);
    case Op::sigmoid:
      return sigmoid_of(f, x);
    case Op::sin:
      return sin_of(f, x);
    case Op::cos:
      return cos_of(f, x);
    case Op::tan:
      return tan_of(f, x);
    case Op::asin:
      return asin_of(f, x);
    case Op::acos:
      return acos_of(f, x);
    case Op::atan:
      return atan_of(f, x);
    case Op::sinh:
      return through_f64(x, sinh_of);
    case Op::cosh:
      return through_f64(x, cosh_of);
    case Op::asinh:
      return through_f64(x, asinh_of);
    case Op::acosh:
      return through_f64(x, acosh_of);
    case Op::atanh:
      return through_f64(x, atanh_of);
    case Op::log1p:
      return log1p_of(f, x);
    default:
      return expm1_of(f, x);
  }
}

Expr expand_binary(Op op, const Expr& x, const Expr& y) {
  if (!needs_expansion(op, x.elem())) return {};
  if (!has_math(op, x.elem())) fail(ErrorKind::internal, "no expansion of {} for {}", name(op), text(x.type()));
  if (is_small_float(x.elem())) {
    return cast(x.elem(), expand_binary(op, cast(DType::f32, x), cast(DType::f32, y)));
  }
  return op == Op::pow ? pow_of(x, y) : mod_of(x, y);
}

LoopFunc expand_math(const LoopFunc& func, const CpuLimits& limits) { return Expander(func, limits).run(); }

}  // namespace kilter::loop_passes
