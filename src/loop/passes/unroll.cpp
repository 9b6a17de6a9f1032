// Replaces unrolled loops by copies of their body. Everything that a copy binds gets its own number, so that each
// variable and register is still bound once.
//
//   for i in [0, 2) unrolled {        let a = 0 + p          (the first copy keeps its numbers)
//     let a = i + p              →    y[a] = x[a]
//     y[a] = x[a]                     let a.1 = p + 1
//   }                                 y[a.1] = x[a.1]
#include <unordered_map>

#include "loop/passes/passes.h"
#include "loop/passes/rewrite.h"

namespace kilter::loop_passes {
namespace {

/// More copies than this in one loop are an error in the schedule.
constexpr int64_t kMaxCopies = 4096;

class Unroll {
 public:
  explicit Unroll(const LoopFunc& func) : result_(func), rewrite_(func) {}

  LoopFunc run() {
    std::vector<Stmt> body = std::move(result_.body);
    result_.body.clear();
    stmts(body, result_.body);
    return std::move(result_);
  }

 private:
  bool has_unrolled(const Stmt& s) {
    if (s->kind == StmtKind::loop && s->loop == LoopKind::unrolled) return true;
    if (s->body.empty() && s->other.empty()) return false;
    const auto known = has_.find(s.get());
    if (known != has_.end()) return known->second;
    bool result = false;
    for (const Stmt& b : s->body) result = result || has_unrolled(b);
    for (const Stmt& b : s->other) result = result || has_unrolled(b);
    has_.emplace(s.get(), result);
    return result;
  }

  void stmts(const std::vector<Stmt>& in, std::vector<Stmt>& out) {
    for (const Stmt& s : in) {
      if (!rewrite_.active() && !has_unrolled(s)) {
        out.push_back(s);
      } else if (s->kind == StmtKind::loop && s->loop == LoopKind::unrolled) {
        copies(*s, out);
      } else {
        out.push_back(copy(*s));
      }
    }
  }

  void copies(const StmtNode& s, std::vector<Stmt>& out) {
    const Expr begin = rewrite_(s.a);
    const int64_t extent = constant_extent(begin, rewrite_(s.b), s.step);
    const std::string& name = result_.vars[static_cast<size_t>(s.id)].name;
    require(extent >= 0, "unroll '{}': the extent of loop '{}' is not constant", result_.name, name);
    require(extent <= kMaxCopies, "unroll '{}': loop '{}' has {} iterations, at most {} can be unrolled", result_.name,
            name, extent, kMaxCopies);
    const bool renames = renames_;
    for (int64_t k = 0; k < extent; ++k) {
      renames_ = renames || k > 0;
      rewrite_.enter();
      rewrite_.bind_var(s.id, begin + k * s.step);
      stmts(s.body, out);
      rewrite_.leave();
    }
    renames_ = renames;
  }

  Stmt copy(const StmtNode& s) {
    StmtNode n = outline(s);
    n.a = rewrite_(s.a);
    n.b = rewrite_(s.b);
    n.mask = rewrite_(s.mask);
    rename(s, n);
    stmts(s.body, n.body);
    stmts(s.other, n.other);
    return make_stmt(std::move(n));
  }

  /// Renames the variables, registers and tile registers that a copy binds. In the first copy they keep their numbers
  /// but are still bound (to themselves), since the next copy binds them again.
  void rename(const StmtNode& s, StmtNode& n) {
    if (!rewrite_.active()) return;
    if (s.kind == StmtKind::let || s.kind == StmtKind::loop) {
      if (renames_) n.id = fresh_var(result_, s.id);
      rewrite_.bind_var(s.id, var_expr(result_.vars[static_cast<size_t>(n.id)].type, n.id));
    } else if (s.kind == StmtKind::reg_decl) {
      if (renames_) n.id = fresh_reg(result_, s.id);
      const Expr value = reg_expr(result_.regs[static_cast<size_t>(n.id)].type, n.id);
      regs_[s.id] = n.id;
      rewrite_.bind_reg(s.id, value);
    } else if (s.kind == StmtKind::reg_set) {
      const auto renamed = regs_.find(s.id);
      if (renamed != regs_.end()) n.id = renamed->second;
    } else if (s.kind == StmtKind::tiles) {
      for (int32_t& tile : n.tiles) {
        const int32_t own = tile;
        if (renames_) tile = fresh_tile(result_, own);
        tiles_[own] = tile;
      }
    } else if (is_tile(s.kind)) {
      for (int32_t& tile : n.tiles) {
        const auto renamed = tiles_.find(tile);
        if (renamed != tiles_.end()) tile = renamed->second;
      }
    }
  }

  LoopFunc result_;
  Rewriter rewrite_;
  bool renames_ = false;
  std::unordered_map<int32_t, int32_t> regs_;   ///< the latest number of each register
  std::unordered_map<int32_t, int32_t> tiles_;  ///< the latest number of each tile register
  std::unordered_map<const StmtNode*, bool> has_;
};

}  // namespace

LoopFunc unroll(const LoopFunc& func) { return Unroll(func).run(); }

}  // namespace kilter::loop_passes
