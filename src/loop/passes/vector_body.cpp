#include "loop/passes/vector_body.h"

#include <algorithm>

#include "loop/passes/rewrite.h"

namespace kilter::loop_passes {
namespace {

Expr both(const Expr& a, const Expr& b) {
  if (!a.defined()) return b;
  if (!b.defined()) return a;
  return binary(Op::logical_and, a, b);
}

}  // namespace

VectorBody::VectorBody(LoopFunc& func, const StmtNode& loop, int32_t lanes) : func_(func), loop_(loop), lanes_(lanes) {}

void VectorBody::add_copy(Expr base, Expr mask) {
  Copy c{.tail = std::move(mask), .condition = {}, .vars = {}, .regs = {}, .memo = {}};
  c.vars[loop_.id] = {std::move(base), lanes_ == 1 ? 0 : loop_.step, {}};
  copies_.push_back(std::move(c));
}

std::vector<Stmt> VectorBody::build() {
  Out out;
  stmts(loop_.body, out);
  return out;
}

void VectorBody::refuse(const std::string& why) const {
  fail(ErrorKind::internal, "vectorise '{}': loop '{}' {}", func_.name, func_.vars[static_cast<size_t>(loop_.id)].name,
       why);
}

void VectorBody::stmts(const std::vector<Stmt>& in, Out& out) {
  for (const Stmt& s : in) stmt(*s, out);
}

void VectorBody::stmt(const StmtNode& s, Out& out) {
  switch (s.kind) {
    case StmtKind::block:
      return stmts(s.body, out);
    case StmtKind::loop:
      return inner_loop(s, out);
    case StmtKind::let:
      return let(s, out);
    case StmtKind::if_then:
      return branch(s, out);
    case StmtKind::store:
      for (Copy& c : copies_) store(s, c, out);
      return;
    case StmtKind::scatter:
      refuse("contains an explicit scatter");
    case StmtKind::reg_decl:
    case StmtKind::reg_set:
      for (Copy& c : copies_) reg(s, c, out);
      return;
    case StmtKind::prefetch:
      for (Copy& c : copies_) {
        const LaneValue& at = value(c, s.a);
        if (at.affine()) out.push_back(make_stmt({.kind = StmtKind::prefetch, .id = s.id, .a = at.scalar}));
      }
      return;
    case StmtKind::check:
      for (Copy& c : copies_) check(s, c, out);
      return;
    case StmtKind::barrier:
      refuse("contains a barrier");
    case StmtKind::tiles:
    case StmtKind::tile_zero:
    case StmtKind::tile_load:
    case StmtKind::tile_store:
    case StmtKind::tile_dot:
      refuse("uses tile registers");
  }
}

void VectorBody::let(const StmtNode& s, Out& out) {
  LaneValue first;
  for (Copy& c : copies_) {
    if (&c != copies_.data() && first.uniform() && value(c, s.a).uniform()) {
      c.vars[s.id] = first;  // the same in every lane of every copy
      continue;
    }
    const LaneValue v = value(c, s.a);
    const Expr bound = v.affine() ? v.scalar : v.vector;
    const int32_t id = fresh_var(func_, s.id);
    func_.vars[static_cast<size_t>(id)].type = bound.type();
    out.push_back(make_stmt({.kind = StmtKind::let, .id = id, .a = bound}));
    const Expr var = var_expr(bound.type(), id);
    c.vars[s.id] = v.affine() ? LaneValue{var, v.stride, {}} : LaneValue{{}, 0, var};
    if (&c == copies_.data()) first = c.vars[s.id];
  }
}

void VectorBody::inner_loop(const StmtNode& s, Out& out) {
  StmtNode n{.kind = StmtKind::loop, .loop = s.loop == LoopKind::vector ? LoopKind::serial : s.loop, .step = s.step};
  for (Copy& c : copies_) {
    const LaneValue begin = value(c, s.a);
    const LaneValue end = value(c, s.b);
    if (!begin.uniform() || !end.uniform()) {
      refuse(fmt::format("contains loop '{}', whose bounds differ between its iterations",
                         func_.vars[static_cast<size_t>(s.id)].name));
    }
    n.a = begin.scalar;
    n.b = end.scalar;
  }
  n.id = fresh_var(func_, s.id);
  for (Copy& c : copies_) c.vars[s.id] = scalar_like(var_expr({DType::i64, 1}, n.id));
  stmts(s.body, n.body);
  out.push_back(make_stmt(std::move(n)));
}

void VectorBody::branch(const StmtNode& s, Out& out) {
  Expr condition;
  for (Copy& c : copies_) {
    const LaneValue v = value(c, s.a);
    if (!v.uniform()) return masked_branch(s, out);
    condition = v.scalar;
  }
  StmtNode n = outline(s);
  n.a = condition;
  stmts(s.body, n.body);
  stmts(s.other, n.other);
  out.push_back(make_stmt(std::move(n)));
}

void VectorBody::masked_branch(const StmtNode& s, Out& out) {
  std::vector<Expr> outer, taken;
  for (Copy& c : copies_) {
    outer.push_back(c.condition);
    // Bind the condition here: the branch may change values that it reads.
    const int32_t id = fresh_var(func_, loop_.id);
    func_.vars[static_cast<size_t>(id)] = {"taken", {DType::boolean, lanes_}};
    out.push_back(make_stmt({.kind = StmtKind::let, .id = id, .a = vector_of(value(c, s.a))}));
    taken.push_back(var_expr({DType::boolean, lanes_}, id));
  }
  // Values that depend on the branch (masked loads) must not be reused outside it.
  const auto side = [&](const std::vector<Stmt>& body, bool negate) {
    if (body.empty()) return;
    for (size_t i = 0; i < copies_.size(); ++i) {
      copies_[i].condition = both(outer[i], negate ? unary(Op::logical_not, taken[i]) : taken[i]);
      copies_[i].memo.clear();
    }
    stmts(body, out);
    for (size_t i = 0; i < copies_.size(); ++i) {
      copies_[i].condition = outer[i];
      copies_[i].memo.clear();
    }
  };
  side(s.body, false);
  side(s.other, true);
}

void VectorBody::reg(const StmtNode& s, Copy& c, Out& out) {
  const VarInfo info = func_.regs[static_cast<size_t>(s.id)];
  if (info.type.lanes != 1) refuse(fmt::format("contains register '{}' of {} lanes", info.name, info.type.lanes));
  const VType type{info.type.elem, lanes_};
  Expr v = vector_of(value(c, s.a));
  if (s.kind == StmtKind::reg_decl) {
    const int32_t id = fresh_reg(func_, s.id);
    func_.regs[static_cast<size_t>(id)].type = type;
    c.regs[s.id] = id;
    out.push_back(make_stmt({.kind = StmtKind::reg_decl, .id = id, .a = std::move(v)}));
    return;
  }
  const auto own = c.regs.find(s.id);
  if (own == c.regs.end()) refuse(fmt::format("sets register '{}', which is declared outside of it", info.name));
  if (c.condition.defined()) v = select(c.condition, v, reg_expr(type, own->second));
  out.push_back(make_stmt({.kind = StmtKind::reg_set, .id = own->second, .a = std::move(v)}));
}

/// Checks a condition in every lane that is on. Lanes that are off are not checked.
void VectorBody::check(const StmtNode& s, Copy& c, Out& out) {
  const LaneValue v = value(c, s.a);
  if (lanes_ == 1 || (v.uniform() && !c.condition.defined())) {
    out.push_back(make_stmt({.kind = StmtKind::check, .a = v.scalar}));
    return;
  }
  Expr holds = vector_of(v);
  if (const Expr on = lanes_on(c); on.defined()) holds = binary(Op::logical_or, holds, unary(Op::logical_not, on));
  out.push_back(make_stmt({.kind = StmtKind::check, .a = lane_reduce(Op::logical_and, holds)}));
}

Expr VectorBody::lanes_on(Copy& c) {
  if (!c.condition.defined() || !c.tail.defined()) return both(c.condition, c.tail);
  for (const auto& [condition, joined] : c.masks) {
    if (condition.get() == c.condition.get()) return joined;
  }
  c.masks.emplace_back(c.condition, both(c.condition, c.tail));
  return c.masks.back().second;
}

void VectorBody::store(const StmtNode& s, Copy& c, Out& out) {
  if (s.b.lanes() != 1) refuse(fmt::format("contains a store of {} lanes", s.b.lanes()));
  const LaneValue at = value(c, s.a);
  const LaneValue v = value(c, s.b);
  StmtNode n{.kind = StmtKind::store, .id = s.id};
  if (lanes_ == 1) {
    n.a = at.scalar;
    n.b = v.scalar;
    if (s.mask.defined()) n.mask = value(c, s.mask).scalar;
    out.push_back(make_stmt(std::move(n)));
    return;
  }
  n.mask = lanes_on(c);
  if (s.mask.defined()) n.mask = both(vector_of(value(c, s.mask)), n.mask);
  if (at.uniform()) {
    const bool same = v.uniform() && !c.condition.defined() && !s.mask.defined();
    if (!same) {
      refuse(fmt::format("stores to one element of '{}' from several iterations",
                         func_.buffers[static_cast<size_t>(s.id)].name));
    }
    n.a = at.scalar;
    n.b = v.scalar;
    n.mask = {};
  } else if (at.affine() && at.stride == 1) {
    n.a = at.scalar;
    n.b = vector_of(v);
  } else {
    n.kind = StmtKind::scatter;
    n.a = vector_of(at);
    n.b = vector_of(v);
  }
  out.push_back(make_stmt(std::move(n)));
}

Expr VectorBody::vector_of(const LaneValue& v) const {
  if (!v.affine()) return v.vector;
  if (v.uniform()) return broadcast(v.scalar, lanes_);
  return ramp(v.scalar, v.stride, lanes_);
}

const LaneValue& VectorBody::value(Copy& c, const Expr& e) {
  const auto known = c.memo.find(e.get());
  if (known != c.memo.end()) return known->second;
  LaneValue v = compute(c, e);
  return c.memo.insert_or_assign(e.get(), std::move(v)).first->second;
}

LaneValue VectorBody::compute(Copy& c, const Expr& e) {
  switch (e->kind) {
    case ExprKind::int_imm:
    case ExprKind::float_imm:
      return scalar_like(e);
    case ExprKind::var: {
      const auto own = c.vars.find(e->id);
      return own == c.vars.end() ? scalar_like(e) : own->second;
    }
    case ExprKind::reg: {
      const auto own = c.regs.find(e->id);
      if (own == c.regs.end()) return scalar_like(e);
      const Expr r = reg_expr({e.elem(), lanes_}, own->second);
      return lanes_ == 1 ? scalar_like(r) : LaneValue{{}, 0, r};
    }
    case ExprKind::load:
      return load(c, e);
    default:
      break;
  }
  std::vector<LaneValue> args;
  bool uniform = true;
  bool changed = false;
  for (const Expr& a : e->args) {
    args.push_back(value(c, a));
    uniform = uniform && args.back().uniform();
    changed = changed || args.back().scalar.get() != a.get();
  }
  if (uniform && !changed) return scalar_like(e);
  ExprArgs operands;
  if (uniform) {
    for (const LaneValue& a : args) operands.push_back(a.scalar);
    return scalar_like(with_args(e, std::move(operands)));
  }
  if (LaneValue affine = index_arithmetic(e, args); affine.affine()) return affine;
  const bool same_bits = e->kind == ExprKind::bitcast && size_bytes(e.elem()) == size_bytes(e->args[0].elem());
  const bool lanewise = e->kind == ExprKind::unary || e->kind == ExprKind::binary || e->kind == ExprKind::fma ||
                        e->kind == ExprKind::select || e->kind == ExprKind::cast || same_bits;
  if (!lanewise || e.lanes() != 1) refuse("contains explicit vector code that depends on its variable");
  for (const LaneValue& a : args) operands.push_back(vector_of(a));
  return {{}, 0, with_args(e, std::move(operands))};
}

/// Handles sums of affine i64 values and products of an affine value with a constant.
LaneValue VectorBody::index_arithmetic(const Expr& e, const std::vector<LaneValue>& args) {
  if (e->kind != ExprKind::binary || e.type() != VType{DType::i64, 1}) return {};
  const LaneValue& a = args[0];
  const LaneValue& b = args[1];
  if (!a.affine() || !b.affine()) return {};
  if (e->op == Op::add) return {a.scalar + b.scalar, a.stride + b.stride, {}};
  if (e->op == Op::sub) return {a.scalar - b.scalar, a.stride - b.stride, {}};
  int64_t factor = 0;
  if (e->op == Op::mul && is_const(b.scalar, &factor) && b.uniform())
    return {a.scalar * b.scalar, a.stride * factor, {}};
  if (e->op == Op::mul && is_const(a.scalar, &factor) && a.uniform())
    return {a.scalar * b.scalar, b.stride * factor, {}};
  return {};
}

LaneValue VectorBody::load(Copy& c, const Expr& e) {
  if (e.lanes() != 1) refuse(fmt::format("contains a load of {} lanes", e.lanes()));
  const LaneValue at = value(c, e->args[0]);
  LaneValue own;
  if (e->args.size() > 1) own = value(c, e->args[1]);
  const bool scalar_mask = !own.affine() ? !own.vector.defined() : own.uniform();
  // A scalar load would run even when no lane takes the branch around it, so loads inside branches stay masked vectors.
  if (at.uniform() && scalar_mask && !c.condition.defined()) {
    return scalar_like(load_expr(e.elem(), e->id, at.scalar, 1, 1, own.scalar));
  }
  Expr mask = lanes_on(c);
  if (e->args.size() > 1) mask = both(vector_of(own), mask);
  if (at.affine()) {
    const Expr loaded = load_expr(e.elem(), e->id, at.scalar, lanes_, at.stride, mask);
    return loaded.lanes() == 1 ? scalar_like(loaded) : LaneValue{{}, 0, loaded};
  }
  return {{}, 0, gather_expr(e.elem(), e->id, at.vector, mask)};
}

}  // namespace kilter::loop_passes
