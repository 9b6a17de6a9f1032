// Folds everything that is known at compile time. Index expressions become sums in one canonical order (outer variables
// first, the constant last), so that equal sums are one node and hoist finds their invariant part. Ranges of the loop
// variables decide min, max, comparisons, divisions and remainders.
//
//   let a = 4                                for i in [0, 8) {
//   for i in [0, min(a + 4, 8)) {      →       y[p * 16 + i] = x[p * 16 + i]
//     for j in [0, 1) {                      }
//       if i < 8 { y[i + (p * 4) * a + j] = x[(p * 16 + i) / 1] }
//     }
//   }
#include <algorithm>
#include <bit>
#include <unordered_set>

#include "loop/affine.h"
#include "loop/node_map.h"
#include "loop/passes/passes.h"
#include "loop/passes/rewrite.h"

namespace kilter::loop_passes {
namespace {

constexpr VType kIndex{DType::i64, 1};

/// Replaces structurally equal expressions by one node.
class Interner {
 public:
  /// Returns whether the interner returned this very node, which is therefore simplified.
  bool knows(const Expr& e) const {
    const auto at = nodes_.find(e);
    return at != nodes_.end() && at->get() == e.get();
  }

  Expr operator()(const Expr& e) {
    // Nodes compare by the identity of their operands, so a node with operands from elsewhere is not found here.
    const auto at = nodes_.find(e);
    if (at != nodes_.end()) return *at;
    ExprArgs args;
    bool changed = false;
    for (const Expr& a : e->args) {
      args.push_back((*this)(a));
      changed = changed || args.back().get() != a.get();
    }
    if (!changed) return *nodes_.insert(e).first;
    auto node = make_node<ExprNode>(*e);
    node->args = std::move(args);
    return *nodes_.insert(Expr(std::move(node))).first;
  }

 private:
  struct Hash {
    size_t operator()(const Expr& e) const {
      const auto mix = [](uint64_t h, uint64_t v) { return (h ^ v) * 0x9ddfea08eb382d69U ^ (h >> 31); };
      uint64_t h = static_cast<uint64_t>(e->kind) | static_cast<uint64_t>(e->op) << 8 |
                   static_cast<uint64_t>(e->type.elem) << 16 | static_cast<uint64_t>(e->type.lanes) << 24;
      h = mix(h, static_cast<uint64_t>(e->ival) ^ static_cast<uint64_t>(static_cast<uint32_t>(e->id)) << 32);
      h = mix(h, std::bit_cast<uint64_t>(e->fval));
      for (const Expr& a : e->args) h = mix(h, reinterpret_cast<uintptr_t>(a.get()) >> 4);
      for (const int32_t pick : e->picks) h = mix(h, static_cast<uint64_t>(pick));
      return h;
    }
  };
  struct Equal {
    bool operator()(const Expr& a, const Expr& b) const {
      if (a->kind != b->kind || a->op != b->op || a->type != b->type || a->ival != b->ival || a->id != b->id ||
          std::bit_cast<uint64_t>(a->fval) != std::bit_cast<uint64_t>(b->fval) || a->args.size() != b->args.size() ||
          a->picks != b->picks) {
        return false;
      }
      for (size_t i = 0; i < a->args.size(); ++i) {
        if (a->args[i].get() != b->args[i].get()) return false;
      }
      return true;
    }
  };
  std::unordered_set<Expr, Hash, Equal> nodes_;
};

/// Removes lets that nothing reads, from the end backwards, and statements that become empty.
class DeadLets {
 public:
  explicit DeadLets(size_t vars) : used_(vars, false) {}

  std::vector<Stmt> block(const std::vector<Stmt>& in) {
    std::vector<Stmt> out;
    for (size_t i = in.size(); i-- > 0;) {
      Stmt s = in[i];
      if (s->kind == StmtKind::let && !used_[static_cast<size_t>(s->id)]) continue;
      if (!s->body.empty() || !s->other.empty()) {
        std::vector<Stmt> body = block(s->body);
        std::vector<Stmt> other = block(s->other);
        if (body.empty() && other.empty()) continue;
        if (body.size() != s->body.size() || other.size() != s->other.size() || changed_) {
          StmtNode n = *s;
          n.body = std::move(body);
          n.other = std::move(other);
          if (n.body.empty()) {
            n.a = unary(Op::logical_not, n.a);
            std::swap(n.body, n.other);
            n.likely = false;  // the flag described the side that was removed
          }
          s = make_stmt(std::move(n));
        }
      }
      for (const Expr* e : {&s->a, &s->b, &s->mask}) {
        if (e->defined()) use(*e);
      }
      out.push_back(std::move(s));
    }
    changed_ = changed_ || out.size() != in.size();
    return {out.rbegin(), out.rend()};
  }

 private:
  void use(const Expr& e) {
    if (e->kind == ExprKind::var) used_[static_cast<size_t>(e->id)] = true;
    if (e->args.empty()) return;
    bool& seen = seen_[e.get()];
    if (seen) return;
    seen = true;
    for (const Expr& a : e->args) use(a);
  }
  std::vector<bool> used_;
  NodeMap<bool> seen_;
  bool changed_ = false;  ///< something below was removed, so parents are rebuilt
};

class Simplify {
 public:
  explicit Simplify(const LoopFunc& func) : func_(func), space_(func), replaced_(func.vars.size()) {}

  LoopFunc run() {
    LoopFunc result = func_;
    for (const ParallelDim& d : func_.parallel) {
      if (d.extent == 1) replaced_[static_cast<size_t>(d.var)] = Expr(0);
      space_.bind_parallel(d.var, d.extent);
    }
    std::vector<Stmt> body;
    block(func_.body, body);
    result.body = DeadLets(func_.vars.size()).block(body);
    return result;
  }

 private:
  void block(const std::vector<Stmt>& in, std::vector<Stmt>& out) {
    for (const Stmt& s : in) statement(s, out);
  }

  void statement(const Stmt& s, std::vector<Stmt>& out) {
    switch (s->kind) {
      case StmtKind::block:
        return block(s->body, out);
      case StmtKind::loop:
        return loop(*s, out);
      case StmtKind::let:
        return let(s->id, expr(s->a), s, out);
      case StmtKind::if_then:
        return branch(*s, out);
      case StmtKind::tiles: {
        StmtNode n = outline(*s);
        block(s->body, n.body);
        out.push_back(make_stmt(std::move(n)));
        return;
      }
      case StmtKind::barrier:
      case StmtKind::tile_zero:
      case StmtKind::tile_dot:
        out.push_back(s);
        return;
      default:
        break;
    }
    StmtNode n = *s;
    n.a = expr(s->a);
    if (s->kind == StmtKind::check && n.a->kind == ExprKind::int_imm && n.a->ival != 0) return;
    if (s->b.defined()) n.b = expr(s->b);
    if (s->mask.defined()) n.mask = expr(s->mask);
    if (n.mask.defined() && n.mask->kind == ExprKind::int_imm) {
      if (n.mask->ival == 0) return;
      n.mask = {};
    }
    const bool same = n.a.get() == s->a.get() && n.b.get() == s->b.get() && n.mask.get() == s->mask.get();
    out.push_back(same ? s : make_stmt(std::move(n)));
  }

  /// Returns whether `e` replaces its variable: constants, variables and short sums do, so that indices built on them
  /// fold.
  bool is_simple(const Expr& e) {
    if (e->kind == ExprKind::int_imm || e->kind == ExprKind::float_imm || e->kind == ExprKind::var) return true;
    if (e.type() != kIndex || e->kind != ExprKind::binary) return false;
    const Affine& a = space_.affine(e);
    return a.count <= 2 && std::all_of(a.begin(), a.end(), [this](const Affine::Term& t) {
             return space_.key(t.key).kind != IndexSpace::KeyKind::opaque;
           });
  }

  void let(int32_t id, const Expr& value, const Stmt& old, std::vector<Stmt>& out) {
    if (is_simple(value)) {
      replaced_[static_cast<size_t>(id)] = value;
      return;
    }
    space_.bind_let(id, value);
    const bool same = old != nullptr && old->a.get() == value.get();
    out.push_back(same ? old : make_stmt({.kind = StmtKind::let, .id = id, .a = value}));
  }

  void loop(const StmtNode& s, std::vector<Stmt>& out) {
    StmtNode n = outline(s);
    n.a = expr(s.a);
    n.b = expr(s.b);
    const std::optional<Affine> distance = kilter::add(space_.affine(n.b), space_.affine(n.a), -1);
    if (distance && !is_bound(s.loop)) {  // a bound loop of one iteration is kept for its binding
      const Affine d = space_.expanded(*distance);
      const std::optional<int64_t> high = space_.upper(d);
      if (high && *high <= 0) return;
      if (high && *high <= s.step) {
        const std::optional<int64_t> low = space_.lower(d);
        if (low && *low >= 1) {  // exactly one iteration
          let(s.id, n.a, nullptr, out);
          return block(s.body, out);
        }
      }
    }
    space_.bind_loop(s.id, n.a, n.b, s.step);
    block(s.body, n.body);
    if (!n.body.empty()) out.push_back(make_stmt(std::move(n)));
  }

  void branch(const StmtNode& s, std::vector<Stmt>& out) {
    StmtNode n = outline(s);
    n.a = expr(s.a);
    if (is_const(n.a)) return block(n.a->ival != 0 ? s.body : s.other, out);
    block(s.body, n.body);
    block(s.other, n.other);
    if (n.body.empty() && n.other.empty()) return;
    out.push_back(make_stmt(std::move(n)));
  }

  const Expr& expr(const Expr& e) {
    Expr& known = memo_[e.get()];
    if (known.defined()) return known;
    Expr result = intern_(rebuilt(e));
    Expr& slot = memo_[e.get()];
    slot = std::move(result);
    return slot;
  }

  Expr rebuilt(const Expr& e) {
    if (e->kind == ExprKind::var) {
      const Expr& other = replaced_[static_cast<size_t>(e->id)];
      return other.defined() ? other : e;
    }
    if (e->args.empty()) return e;
    ExprArgs args;
    bool changed = false;
    for (const Expr& a : e->args) {
      args.push_back(expr(a));
      changed = changed || args.back().get() != a.get();
    }
    const Expr built = changed ? with_args(e, std::move(args)) : e;
    if (changed && !on_simplified(built)) {
      // The constructor folded into new operations; simplify those in turn.
      made_.push_back(built);
      return expr(built);
    }
    const bool of_indices = built->kind == ExprKind::binary && built->args[0].type() == kIndex;
    if (of_indices) return index(built);
    return built->kind == ExprKind::unary && built->op == Op::neg && built.type() == kIndex ? canonical(built) : built;
  }

  bool on_simplified(const Expr& e) const {
    return std::all_of(e->args.begin(), e->args.end(),
                       [this](const Expr& a) { return a->args.empty() || intern_.knows(a); });
  }

  Expr canonical(const Expr& e) { return space_.expr(space_.affine(e)); }

  /// Simplifies a binary operation on scalar i64 values that are themselves simplified.
  Expr index(const Expr& e) {
    const Expr& a = e->args[0];
    const Expr& b = e->args[1];
    switch (e->op) {
      case Op::add:
        // The constructor keeps a constant outermost, and the rest is already in order.
        if (is_const(b) && intern_.knows(a)) return e;
        return canonical(e);
      case Op::mul:
        if (is_const(b) && a->kind == ExprKind::var) return e;
        return canonical(e);
      case Op::sub:
      case Op::div:
      case Op::mod:
        return canonical(e);
      case Op::min:
        if (at_least(b, a, 0)) return a;
        if (at_least(a, b, 0)) return b;
        return e;
      case Op::max:
        if (at_least(a, b, 0)) return a;
        if (at_least(b, a, 0)) return b;
        return e;
      default:
        return is_comparison(e->op) ? comparison(e) : e;
    }
  }

  Expr comparison(const Expr& e) {
    const Expr& a = e->args[0];
    const Expr& b = e->args[1];
    const auto truth = [](bool value) { return imm_int(DType::boolean, value ? 1 : 0); };
    const bool below = at_least(b, a, 1);  // always a < b
    const bool above = !below && at_least(a, b, 1);
    switch (e->op) {
      case Op::lt:
        return below ? truth(true) : at_least(a, b, 0) ? truth(false) : e;
      case Op::ge:
        return below ? truth(false) : at_least(a, b, 0) ? truth(true) : e;
      case Op::gt:
        return above ? truth(true) : at_least(b, a, 0) ? truth(false) : e;
      case Op::le:
        return above ? truth(false) : at_least(b, a, 0) ? truth(true) : e;
      case Op::eq:
        return below || above ? truth(false) : e;
      case Op::ne:
        return below || above ? truth(true) : e;
      default:
        return e;
    }
  }

  /// Returns whether a - b >= gap for all values of the variables.
  bool at_least(const Expr& a, const Expr& b, int64_t gap) {
    const std::optional<Affine> difference = kilter::add(space_.affine(a), space_.affine(b), -1);
    if (!difference) return false;
    const std::optional<int64_t> low = space_.lower(*difference);
    return low && *low >= gap;
  }

  const LoopFunc& func_;
  IndexSpace space_;
  Interner intern_;
  std::vector<Expr> replaced_;  ///< by variable: its replacement
  NodeMap<Expr> memo_;
  std::vector<Expr> made_;  ///< nodes that only memo_ refers to, kept alive so that no other node gets their address
};

}  // namespace

LoopFunc simplify(const LoopFunc& func) { return Simplify(func).run(); }

}  // namespace kilter::loop_passes
