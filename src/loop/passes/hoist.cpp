// Moves loop-invariant lets, pure expressions, and loads of inputs (if the loop certainly runs) in front of the loop. A
// value moves out as far as its variables allow, and equal values (the same node) become one let.
//
//   for i in [0, 8) {                            let h = p * 64
//     for j in [0, 8) {                          for i in [0, 8) {
//       y[p * 64 + i * 8 + j] = exp(x[p])   →      let h.1 = h + i * 8
//     }                                            for j in [0, 8) { y[h.1 + j] = h.2 }     let h.2 = exp(x[p]), above
//   }                                            }
#include <algorithm>
#include <unordered_map>

#include "loop/node_map.h"
#include "loop/passes/passes.h"
#include "loop/passes/rewrite.h"

namespace kilter::loop_passes {
namespace {

/// The level of a value that may change from statement to statement.
constexpr int32_t kPinned = 1 << 20;
constexpr VType kIndex{DType::i64, 1};

class Hoist {
 public:
  explicit Hoist(const LoopFunc& func) : result_(func), level_of_var_(func.vars.size(), 0) {}

  LoopFunc run() {
    std::vector<Stmt> body = std::move(result_.body);
    result_.body.clear();
    block(body, result_.body);
    return std::move(result_);
  }

 private:
  /// One enclosing loop: the statements to insert before it, and the number of the block that contains it.
  struct Frame {
    std::vector<Stmt> before;
    size_t block;
  };
  struct Info {
    int32_t level = 0;   ///< depth of the innermost loop that it depends on
    bool loads = false;  ///< contains a load of an input
  };

  int32_t depth() const { return static_cast<int32_t>(frames_.size()); }

  void block(const std::vector<Stmt>& in, std::vector<Stmt>& out) {
    blocks_.emplace_back();
    for (const Stmt& s : in) statement(s, out);
    for (const ExprNode* e : blocks_.back()) hoisted_.erase(e);
    blocks_.pop_back();
  }

  void statement(const Stmt& s, std::vector<Stmt>& out) {
    memo_.clear();
    if (s->kind == StmtKind::loop) return loop(*s, out);
    if (s->kind == StmtKind::let) return let(s, out);
    if (frames_.empty() && s->body.empty() && s->other.empty()) {
      out.push_back(s);
      return;
    }
    StmtNode n = outline(*s);
    n.a = at(s->a, depth());
    n.b = at(s->b, depth());
    n.mask = at(s->mask, depth());
    if (s->kind == StmtKind::if_then) {
      const int32_t load_level = load_level_;
      load_level_ = depth();
      block(s->body, n.body);
      block(s->other, n.other);
      load_level_ = load_level;
    } else {
      block(s->body, n.body);
    }
    out.push_back(make_stmt(std::move(n)));
  }

  void loop(const StmtNode& s, std::vector<Stmt>& out) {
    StmtNode n = outline(s);
    n.a = at(s.a, depth());
    n.b = at(s.b, depth());
    const int32_t load_level = load_level_;
    frames_.push_back({{}, blocks_.size() - 1});
    level_of_var_[static_cast<size_t>(s.id)] = depth();
    if (constant_extent(n.a, n.b, s.step) < 1) load_level_ = depth();
    block(s.body, n.body);
    load_level_ = load_level;
    for (Stmt& b : frames_.back().before) out.push_back(std::move(b));
    frames_.pop_back();
    out.push_back(make_stmt(std::move(n)));
  }

  void let(const Stmt& s, std::vector<Stmt>& out) {
    const Info i = info(s->a);
    const int32_t target = i.loads ? std::max(i.level, load_level_) : i.level;
    if (target >= depth()) {
      level_of_var_[static_cast<size_t>(s->id)] = depth();
      Expr value = rebuilt(s->a, depth());
      out.push_back(value.get() == s->a.get() ? s
                                              : make_stmt({.kind = StmtKind::let, .id = s->id, .a = std::move(value)}));
      return;
    }
    level_of_var_[static_cast<size_t>(s->id)] = target;
    Expr value = rebuilt(s->a, target);
    frames_[static_cast<size_t>(target)].before.push_back(
        make_stmt({.kind = StmtKind::let, .id = s->id, .a = std::move(value)}));
  }

  const Info& info(const Expr& e) {
    if (const Info* known = infos_.find(e.get())) return *known;
    Info result;
    if (e->kind == ExprKind::var) {
      result.level = level_of_var_[static_cast<size_t>(e->id)];
    } else if (e->kind == ExprKind::reg) {
      result.level = kPinned;
    } else if (e->kind == ExprKind::load || e->kind == ExprKind::gather) {
      result.loads = true;
      if (result_.buffers[static_cast<size_t>(e->id)].kind != BufferKind::input) result.level = kPinned;
    }
    for (const Expr& a : e->args) {
      const Info& sub = info(a);
      result.level = std::max(result.level, sub.level);
      result.loads = result.loads || sub.loads;
    }
    return infos_[e.get()] = result;
  }

  /// Returns whether `e` is worth a variable. Leaves are not, nor are sums with a constant, which addressing computes
  /// for free.
  static bool is_worth_it(const Expr& e) {
    if (e->args.empty()) return false;
    const bool adds_constant = e->kind == ExprKind::binary && e->op == Op::add && is_const(e->args[1]);
    return !(e.type() == kIndex && adds_constant);
  }

  /// Returns `e` in the form to use inside `depth` loops.
  Expr at(const Expr& e, int32_t depth) {
    if (!e.defined() || depth == 0 || e->args.empty()) return e;
    const Info& i = info(e);
    const int32_t target = i.loads ? std::max(i.level, load_level_) : i.level;
    if (target >= depth || !is_worth_it(e)) return rebuilt(e, depth);
    const auto known = hoisted_.find(e.get());
    if (known != hoisted_.end()) return known->second.first;
    Expr value = rebuilt(e, target);
    result_.vars.push_back({"h", e.type()});
    const auto id = static_cast<int32_t>(result_.vars.size()) - 1;
    level_of_var_.push_back(target);
    frames_[static_cast<size_t>(target)].before.push_back(
        make_stmt({.kind = StmtKind::let, .id = id, .a = std::move(value)}));
    Expr var = var_expr(e.type(), id);
    hoisted_.emplace(e.get(), std::pair(var, e));
    blocks_[frames_[static_cast<size_t>(target)].block].push_back(e.get());
    return var;
  }

  Expr rebuilt(const Expr& e, int32_t depth) {
    if (e->args.empty()) return e;
    const uint64_t key = reinterpret_cast<uintptr_t>(e.get()) ^ static_cast<uint64_t>(depth) << 56;
    const auto known = memo_.find(key);
    if (known != memo_.end()) return known->second;
    ExprArgs args;
    bool changed = false;
    for (const Expr& a : e->args) {
      args.push_back(at(a, depth));
      changed = changed || args.back().get() != a.get();
    }
    Expr result = changed ? with_args(e, std::move(args)) : e;
    memo_.emplace(key, result);
    return result;
  }

  LoopFunc result_;
  std::vector<int32_t> level_of_var_;
  std::vector<Frame> frames_;
  int32_t load_level_ = 0;  ///< loads may not move out beyond this level
  NodeMap<Info> infos_;
  std::unordered_map<const ExprNode*, std::pair<Expr, Expr>> hoisted_;
  std::vector<std::vector<const ExprNode*>> blocks_;  ///< by open block: the values hoisted into it
  std::unordered_map<uint64_t, Expr> memo_;
};

}  // namespace

LoopFunc hoist(const LoopFunc& func) { return Hoist(func).run(); }

}  // namespace kilter::loop_passes
