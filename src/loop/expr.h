// Expressions of the loop IR: immutable trees over scalars and explicit vectors. Indices are i64 and affine in loop
// variables, except for loaded indices (gathers).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "loop/node_memory.h"

namespace kilter {

/// The type of an expression: `lanes` elements of `elem` in a register. DType::boolean is one bit in a register and one
/// byte (0 or 1) in memory. lanes == 1 is a scalar.
struct VType {
  DType elem = DType::f32;
  int32_t lanes = 1;
  bool operator==(const VType&) const = default;
};

enum class ExprKind : uint8_t {
  int_imm,     ///< integer or boolean constant `ival` (splat when lanes > 1)
  float_imm,   ///< floating constant `fval` (splat when lanes > 1)
  var,         ///< loop variable or let-bound value `id`
  reg,         ///< current content of register `id`
  load,        ///< buffer `id` at element index args[0] (scalar i64), lane stride `ival`, optional mask args[1]
  gather,      ///< buffer `id` at the element indices args[0] (vector i64), optional mask args[1]
  unary,       ///< `op` of args[0]
  binary,      ///< `op` of args[0], args[1]
  fma,         ///< args[0] * args[1] + args[2], rounded once if the target has FMA, else as mul and add
  dot,         ///< args[2] plus, in each lane, the products of a group of lanes of args[0] and args[1] (see dot())
  select,      ///< args[0] (boolean, same lanes or 1) ? args[1] : args[2]
  cast,        ///< args[0] converted to type.elem (see cast())
  bitcast,     ///< same bits, as lanes of another element type
  broadcast,   ///< scalar args[0] in all lanes
  ramp,        ///< args[0] + lane * args[1] (scalar integers)
  shuffle,     ///< lane k is lane picks[k] of the concatenation of args[0] and args[1] (same type)
  lane_reduce  ///< `op` (add, mul, min, max; for booleans and, or) over all lanes of args[0], giving a scalar: lane k
               ///< with lane k + n/2, then halves again (n a power of two, otherwise in order)
};

enum class Op : uint8_t {
  // unary
  neg,
  abs,
  logical_not,
  bit_not,
  floor,
  ceil,
  round_even,
  trunc,
  sqrt,
  exp,
  log,
  tanh,
  erf,
  sigmoid,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  asinh,
  acosh,
  atanh,
  log1p,
  expm1,
  is_nan,
  // Binary operations. Integer div truncates; mod has the sign of the dividend. min(a,b) = a < b ? a : b and max(a,b) =
  // a > b ? a : b, so with a NaN on either side the result is b. Integers wrap; integer x / 0 and x % 0 are 0, lowest /
  // -1 is lowest, lowest % -1 is 0. A shift by the width of the type or more (or by a negative count) shifts every bit
  // out: the result is 0, and for shr of a signed type its sign. Float mod is fmod.
  add,
  sub,
  mul,
  div,
  mod,
  min,
  max,
  pow,
  bit_and,
  bit_or,
  bit_xor,
  shl,
  shr,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  logical_and,
  logical_or,
};
std::string_view name(Op op);
bool is_comparison(Op op);

/// Returns whether dot() accepts operands of these types.
bool dot_is_legal(VType a, VType b, VType acc);

/// "f32", "f32x16".
std::string text(VType type);

struct ExprNode;
/// A handle to a node; copies share the node. A default-constructed Expr is undefined.
class Expr {
 public:
  Expr() = default;
  explicit Expr(std::shared_ptr<const ExprNode> node) : node_(std::move(node)) {}
  Expr(int64_t value);  // NOLINT(google-explicit-constructor): i64 constants are everywhere in index arithmetic
  Expr(int value) : Expr(static_cast<int64_t>(value)) {}  // NOLINT(google-explicit-constructor)

  bool defined() const { return node_ != nullptr; }
  const ExprNode& operator*() const { return *node_; }
  const ExprNode* operator->() const { return node_.get(); }
  const ExprNode* get() const { return node_.get(); }
  const VType& type() const;
  int32_t lanes() const { return type().lanes; }
  DType elem() const { return type().elem; }

 private:
  std::shared_ptr<const ExprNode> node_;
};

/// The operands of an expression. No kind of expression has more than three.
class ExprArgs {
 public:
  static constexpr size_t kMost = 3;

  ExprArgs() = default;
  ExprArgs(std::initializer_list<Expr> args) {
    for (const Expr& arg : args) push_back(arg);
  }

  void push_back(Expr arg) { args_.at(count_++) = std::move(arg); }
  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  Expr& operator[](size_t i) { return args_[i]; }
  const Expr& operator[](size_t i) const { return args_[i]; }
  const Expr& back() const { return args_[count_ - 1]; }
  const Expr* begin() const { return args_.data(); }
  const Expr* end() const { return args_.data() + count_; }

 private:
  std::array<Expr, kMost> args_;
  size_t count_ = 0;
};

struct ExprNode {
  ExprKind kind;
  VType type;
  Op op = Op::add;   ///< unary, binary, lane_reduce
  int32_t id = -1;   ///< var, reg, buffer
  int64_t ival = 0;  ///< int_imm: value (unsigned types: its bits); load: stride
  double fval = 0;
  ExprArgs args;
  std::vector<int32_t> picks = {};  ///< shuffle
};

// Constructors. The operands of a binary operation must have the same element type; a scalar operand is broadcast to
// the other's lanes. All constructors throw internal when the types do not match. Constants, x+0, x*1 and x*0 are
// folded during construction.
Expr imm(DType type, double value, int32_t lanes = 1);
Expr imm_int(DType type, int64_t value, int32_t lanes = 1);
Expr unary(Op op, Expr a);
Expr binary(Op op, Expr a, Expr b);
Expr fma(Expr a, Expr b, Expr c);
/// Adds a sum of products to each lane of `acc`: lane l gets a[l * k + i] * b[l * k + i] for i < k, where k is the
/// number of lanes of `a` divided by that of `acc`. `a` and `b` are bf16 with sums of f32 and k = 2, or with sums of
/// i32, which wrap, i16 and k = 2, or i8 and u8 in any combination and k = 4. Sums of i16 of u8 and i8 (k = 2)
/// saturate: first that of the two products, then that with `acc`. The products of bf16 are exact; the target chooses
/// the order of the additions, and whether subnormal operands and sums count as 0.
Expr dot(Expr a, Expr b, Expr acc);
Expr select(Expr condition, Expr a, Expr b);
/// Converts a value. Float to integer truncates toward zero and saturates at the type's limits, and NaN gives 0.
/// Integer to narrower integer wraps. Anything to boolean is `!= 0`. Float to narrower float rounds to nearest even.
Expr cast(DType type, Expr a);
/// Reads the bits of `a` as elements of `type`. The number of lanes changes with the size of the elements; the whole
/// must be the same size.
Expr bitcast(DType type, Expr a);
Expr broadcast(Expr a, int32_t lanes);
Expr ramp(Expr base, Expr stride, int32_t lanes);
/// Picks lanes of two vectors of one type. `picks` may have any length; its numbers count the lanes of `a`, then of
/// `b`.
Expr shuffle(Expr a, Expr b, std::vector<int32_t> picks);
Expr lane_reduce(Op op, Expr a);

// Nodes that refer to something in a LoopFunc. LoopBuilder creates them from its own tables; passes create them
// directly.
Expr var_expr(VType type, int32_t var);
Expr reg_expr(VType type, int32_t reg);
/// Loads `lanes` elements of a buffer of element type `type`; lane k reads index + k * stride. Stride 0 without a mask
/// becomes the broadcast of a scalar load.
Expr load_expr(DType type, int32_t buffer, Expr index, int32_t lanes = 1, int64_t stride = 1, Expr mask = {});
Expr gather_expr(DType type, int32_t buffer, Expr indices, Expr mask = {});
/// Applies the operation of `e` to other arguments, using the constructors above so that the result is folded again.
Expr with_args(const Expr& e, ExprArgs args);

inline Expr operator+(Expr a, Expr b) { return binary(Op::add, std::move(a), std::move(b)); }
inline Expr operator-(Expr a, Expr b) { return binary(Op::sub, std::move(a), std::move(b)); }
inline Expr operator*(Expr a, Expr b) { return binary(Op::mul, std::move(a), std::move(b)); }
inline Expr operator/(Expr a, Expr b) { return binary(Op::div, std::move(a), std::move(b)); }
inline Expr operator%(Expr a, Expr b) { return binary(Op::mod, std::move(a), std::move(b)); }
inline Expr min(Expr a, Expr b) { return binary(Op::min, std::move(a), std::move(b)); }
inline Expr max(Expr a, Expr b) { return binary(Op::max, std::move(a), std::move(b)); }

/// An expression that replaces another one, and the lanes (boolean) in which their values may differ.
struct Guarded {
  Expr value;
  Expr doubtful;
};

/// Returns whether an integer or boolean scalar expression is a constant, and its value.
bool is_const(const Expr& e, int64_t* value = nullptr);
/// Returns the scalar that every lane of `e` equals when `e` is a broadcast or a splat constant; undefined otherwise.
Expr splat_of(const Expr& e);

}  // namespace kilter
