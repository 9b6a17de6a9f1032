// The body of one vector loop, for several vectors at a time. Used by vectorise.cpp.
#pragma once

#include <unordered_map>
#include <vector>

#include "loop/loop.h"

namespace kilter::loop_passes {

/// The form that a scalar expression of the loop's body takes in one copy: one scalar for all lanes (stride 0, `vector`
/// undefined), a scalar that grows by `stride` from lane to lane, or a vector.
struct LaneValue {
  Expr scalar;  ///< lane 0; undefined when the value is a vector
  int64_t stride = 0;
  Expr vector;

  bool uniform() const { return scalar.defined() && stride == 0; }
  bool affine() const { return scalar.defined(); }
};

class VectorBody {
 public:
  /// `loop` is a vector loop of `func`. New variables and registers are added to `func`.
  VectorBody(LoopFunc& func, const StmtNode& loop, int32_t lanes);

  /// Adds a vector in whose lane 0 the loop's variable is `base`. Lanes that `mask` (optional) turns off do not exist.
  void add_copy(Expr base, Expr mask);
  /// Returns the body's statements for all copies. Throws internal if the iterations are not independent.
  std::vector<Stmt> build();

 private:
  struct Copy {
    Expr tail;       ///< lanes that exist; undefined: all
    Expr condition;  ///< lanes that the enclosing varying branches take; undefined: all
    std::unordered_map<int32_t, LaneValue> vars;
    std::unordered_map<int32_t, int32_t> regs;
    std::unordered_map<const ExprNode*, LaneValue> memo;
    std::vector<std::pair<Expr, Expr>> masks = {};  ///< conditions already joined with the tail
  };
  using Out = std::vector<Stmt>;

  [[noreturn]] void refuse(const std::string& why) const;
  void stmts(const std::vector<Stmt>& in, Out& out);
  void stmt(const StmtNode& s, Out& out);
  void let(const StmtNode& s, Out& out);
  void inner_loop(const StmtNode& s, Out& out);
  void branch(const StmtNode& s, Out& out);
  void masked_branch(const StmtNode& s, Out& out);
  void reg(const StmtNode& s, Copy& c, Out& out);
  void check(const StmtNode& s, Copy& c, Out& out);
  void store(const StmtNode& s, Copy& c, Out& out);

  const LaneValue& value(Copy& c, const Expr& e);
  LaneValue compute(Copy& c, const Expr& e);
  LaneValue index_arithmetic(const Expr& e, const std::vector<LaneValue>& args);
  LaneValue load(Copy& c, const Expr& e);
  Expr vector_of(const LaneValue& v) const;
  /// Returns the lanes that run now (tail and branches); undefined when all do.
  Expr lanes_on(Copy& c);
  LaneValue scalar_like(Expr e) const { return {std::move(e), 0, {}}; }

  LoopFunc& func_;
  const StmtNode& loop_;
  int32_t lanes_;
  std::vector<Copy> copies_;
};

}  // namespace kilter::loop_passes
