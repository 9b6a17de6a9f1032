// Substitution of variables and registers in expressions, for the passes that copy statements.
#pragma once

#include <vector>

#include "loop/loop.h"
#include "loop/node_map.h"

namespace kilter::loop_passes {

/// Rewrites expressions under bindings that live in nested scopes. A node is rewritten only when bindings that it
/// depends on have changed; nodes that depend on none are returned unchanged.
class Rewriter {
 public:
  explicit Rewriter(const LoopFunc& func);

  void enter();
  void leave();
  /// Add bindings to the innermost scope. A variable or register must be bound before the first expression that reads
  /// it.
  void bind_var(int32_t var, Expr value);
  void bind_reg(int32_t reg, Expr value);
  bool active() const { return !scopes_.empty(); }

  Expr operator()(const Expr& e);

 private:
  struct Binding {
    Expr value;
    size_t level = 0;  ///< scope that the value belongs to; 0: not bound
  };
  struct Bound {
    bool is_reg;
    int32_t id;
  };
  struct Scope {
    uint64_t stamp;
    std::vector<Bound> bound;
  };
  struct Entry {
    Expr result;
    size_t level = 0;
    uint64_t stamp = 0;
  };
  const Entry& rewrite(const Expr& e);
  void bind(std::vector<Binding>& table, bool is_reg, int32_t id, Expr value);

  std::vector<Binding> vars_, regs_;
  std::vector<Scope> scopes_;
  uint64_t next_stamp_ = 1;
  NodeMap<Entry> memo_;
};

/// Returns the number of iterations of [begin, end) by step when it is constant, otherwise -1.
int64_t constant_extent(const Expr& begin, const Expr& end, int64_t step);

/// Add a variable, a register or a tile register with the properties of `like` to the function and return its number.
int32_t fresh_var(LoopFunc& func, int32_t like);
int32_t fresh_reg(LoopFunc& func, int32_t like);
int32_t fresh_tile(LoopFunc& func, int32_t like);

Stmt make_stmt(StmtNode node);
/// Returns a statement of the same kind without its expressions and nested statements.
StmtNode outline(const StmtNode& s);

}  // namespace kilter::loop_passes
