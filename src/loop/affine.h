// Index analysis: writes i64 expressions as sums of constants times loop variables (and opaque values), and finds their
// bounds over the ranges of those variables. The verifier and the simplify pass use it.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <unordered_map>
#include <vector>

#include "loop/loop.h"
#include "loop/node_map.h"

namespace kilter {

/// constant + sum of coefficient * key. Keys are numbers of an IndexSpace in ascending order; no coefficient is 0.
struct Affine {
  struct Term {
    int32_t key;
    int64_t coef;
    bool operator==(const Term&) const = default;
  };
  static constexpr int32_t kMaxTerms = 12;

  int64_t constant = 0;
  int32_t count = 0;
  std::array<Term, kMaxTerms> terms;

  Affine() {}  // leaves the terms uninitialised
  explicit Affine(int64_t value) : constant(value) {}
  static Affine of(int32_t key) {
    Affine a;
    a.count = 1;
    a.terms[0] = {key, 1};
    return a;
  }
  bool is_constant() const { return count == 0; }
  const Term* begin() const { return terms.data(); }
  const Term* end() const { return terms.data() + count; }
  int64_t coef(int32_t key) const;
  bool operator==(const Affine& other) const;
};

/// Returns a + factor * b; nullopt when a coefficient overflows or the terms do not fit.
std::optional<Affine> add(const Affine& a, const Affine& b, int64_t factor = 1);

/// The loop variables, lets and opaque index values of one function, numbered in the order in which they are bound. The
/// bounds of a key refer only to earlier keys.
class IndexSpace {
 public:
  explicit IndexSpace(const LoopFunc& func);

  void bind_parallel(int32_t var, int64_t extent);
  void bind_loop(int32_t var, const Expr& begin, const Expr& end, int64_t step);
  void bind_let(int32_t var, const Expr& value);

  /// Returns the number of assumed facts: outcomes of conditions, and that loops run at least once. forget() drops
  /// those beyond a given number.
  size_t facts() const { return assumed_.size(); }
  /// Assumes that the condition is true (`holds`) or false. Returns false when facts cannot express all that this
  /// implies. `possible` (optional) receives whether it is possible at all.
  bool assume(const Expr& condition, bool holds, bool* possible = nullptr);
  void assume_runs(const Expr& begin, const Expr& end);
  void forget(size_t facts);

  /// Returns the affine form of `e`, a scalar of type i64. Lets remain keys of their own.
  const Affine& affine(const Expr& e);
  /// Returns `a` with every affine let replaced by its value.
  Affine expanded(const Affine& a) const;
  /// Return a lower and an upper bound over all values of the keys, which may not be the tightest; nullopt if none is
  /// known.
  std::optional<int64_t> lower(const Affine& a) const { return bound(a, false); }
  std::optional<int64_t> upper(const Affine& a) const { return bound(a, true); }
  /// Returns a bound derived only from each key's constant bounds. This is fast, and the bound is often tight enough.
  std::optional<int64_t> box(const Affine& a, bool up) const;
  /// Returns the scalar expression in canonical order: outer variables first, the constant last.
  Expr expr(const Affine& a) const;

  enum class KeyKind : uint8_t { loop, let, opaque };
  struct Key {
    KeyKind kind = KeyKind::opaque;
    int32_t var = -1;     ///< loop, let
    Expr expr = {};       ///< the expression that the key represents
    int32_t rank = 0;     ///< order of the innermost binding that it depends on
    bool known = true;    ///< false: the bounds are not exact, or it depends on a loaded value
    Affine value = {};    ///< let: its definition, expanded
    Affine first = {};    ///< loop: its begin, expanded
    int64_t extent = -1;  ///< loop: number of iterations if constant
    int64_t step = 1;     ///< loop
    Op op = Op::add;      ///< opaque binary: operation and operands
    Affine a = {}, b = {};
    std::vector<Affine> facts = {};                     ///< expanded sums >= 0 whose last key is this one
    int64_t low = std::numeric_limits<int64_t>::min();  ///< constant bounds; the extreme values mean none
    int64_t high = std::numeric_limits<int64_t>::max();
  };
  const Key& key(int32_t k) const { return keys_[static_cast<size_t>(k)]; }
  /// Returns the key of a bound variable, or -1.
  int32_t key_of(int32_t var) const;
  /// Returns the value that a let was bound to; for anything else, the expression itself.
  const Expr& definition(const Expr& e) const;

 private:
  int32_t add_key(Key key);
  Affine compute(const Expr& e);
  Affine opaque(const Expr& e);
  Affine divided(const Expr& e, const Affine& dividend, int64_t c);
  bool add_condition(const Expr& condition, bool holds);
  Affine recombined(Affine a) const;
  void limit_opaque(int32_t k);
  void add_fact(const Affine& at_least_zero, bool assumed);
  void add_facts_below(const Expr& low, const Expr& high, int64_t gap, bool assumed);
  void set_box(int32_t k);
  std::optional<int64_t> bound(const Affine& a, bool up) const;
  std::optional<int64_t> eliminate(const Affine& a, bool up, int& budget) const;
  std::vector<Expr> alternatives(const Expr& e, Op op) const;

  std::vector<Key> keys_;
  std::vector<int32_t> key_of_var_;
  std::vector<Expr> let_values_;
  std::vector<int32_t> assumed_;  ///< keys whose latest fact is an assumption
  struct Known {
    Expr expr;  ///< keeps the node alive
    Affine value;
  };
  NodeMap<Known> memo_;
  std::unordered_multimap<uint64_t, int32_t> opaque_;
  bool has_mod_ = false;
  bool impossible_ = false;  ///< whether a fact assumed by the current condition contradicts known facts
};

}  // namespace kilter
