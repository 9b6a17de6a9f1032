// Checks of the loads and stores of a function: bounds, and races between parallel iterations, blocks and threads. Part
// of the verifier.
#pragma once

#include <string>
#include <vector>

#include "loop/affine.h"

namespace kilter {

/// Checks the function's statements, which the caller passes in order. Throws internal when an access is certainly
/// wrong. Accesses that cannot be decided (loaded indices, conditions other than comparisons of indices) pass.
class AccessChecker {
 public:
  explicit AccessChecker(const LoopFunc& func);

  void enter_loop(const StmtNode& s);
  void leave_loop();
  /// Enters the branch that is taken when the condition is true (`holds`) or the one taken when it is false.
  void enter_branch(const Expr& condition, bool holds);
  void leave_branch();
  void let(const StmtNode& s);
  /// Returns false when no iteration can reach the current statement.
  bool reachable() const { return unreachable_ == 0; }
  /// Returns whether a value is certainly the same in all threads of a block.
  bool uniform(const Expr& e) { return (parallel_of(e) & threads_) == 0; }

  void load(const ExprNode& e);
  void store(const StmtNode& s);
  /// A load or store of a tile register.
  void tile(const StmtNode& s);

 private:
  struct Scope {
    size_t facts;
    uint64_t parallel;
    bool clear;
    bool reachable;
  };
  /// A parallel dimension or a bound loop: iterations that may run at the same time.
  struct Dim {
    int32_t var;
    int64_t extent;
  };
  struct Lanes {
    int64_t stride = 1;
    int32_t count = 1;
    const Expr* mask = nullptr;
    int64_t offset = 0;  ///< of lane 0 from the index
  };
  void push(bool clear, bool reachable, uint64_t parallel);
  void access(std::string_view what, int32_t buffer, const Expr& index, const Lanes& lanes);
  const Expr& without_floor(const Expr& count) const;
  bool limit_by_mask(const Expr& mask, const Affine& base, const Lanes& lanes, std::vector<Affine>& last);
  bool decidable(const Affine& index) const;
  bool exact(int32_t key, uint64_t* base) const;
  void add_dim(int32_t var, int64_t extent, bool thread);
  void race(const StmtNode& s);
  void race(const StmtNode& s, uint64_t apart);
  /// The relation between the values that a loop variable has in two stores that may run at the same time.
  enum class Value : uint8_t {
    same,    ///< equal: stores with other values are in other blocks, or separated by a barrier
    any,     ///< unrelated
    differs  ///< different: the variable is one of those in which the two stores differ
  };
  struct Term {
    int64_t coef, extent;
    Value value;
  };
  bool rectangular(Affine index, uint64_t apart, std::vector<Term>& terms) const;
  /// Returns the parallel dimensions and bound loops that a value may depend on, one bit each.
  uint64_t parallel_of(const Expr& e);
  std::string buffer_name(int32_t id) const { return func_.buffers[static_cast<size_t>(id)].name; }

  const LoopFunc& func_;
  IndexSpace space_;
  std::vector<Scope> scopes_;
  int unreachable_ = 0;
  int unclear_ = 0;  ///< number of enclosing conditions that facts do not fully describe
  std::vector<Dim> dims_;
  uint64_t threads_ = 0;         ///< those of dims_ that are loops over threads
  std::vector<int32_t> phased_;  ///< variables of loops that contain a barrier
  uint64_t control_ = 0;         ///< those of dims_ that the enclosing loops and branches depend on
  std::vector<uint64_t> var_parallel_;
  NodeMap<uint64_t> memo_;
};

}  // namespace kilter
