#include "loop/expr.h"

#include <array>

#include "base/error.h"
#include "loop/eval.h"
#include "loop/rules.h"
#include "loop/text.h"

namespace kilter {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(Op::logical_or) + 1> kNames = {
    "neg",  "abs",  "not",   "bit_not", "floor", "ceil",  "round_even", "trunc",  "sqrt",    "exp",
    "log",  "tanh", "erf",   "sigmoid", "sin",   "cos",   "tan",        "asin",   "acos",    "atan",
    "sinh", "cosh", "asinh", "acosh",   "atanh", "log1p", "expm1",      "is_nan", "add",     "sub",
    "mul",  "div",  "mod",   "min",     "max",   "pow",   "bit_and",    "bit_or", "bit_xor", "shl",
    "shr",  "eq",   "ne",    "lt",      "le",    "gt",    "ge",         "and",    "or"};

bool is_imm(const Expr& e) { return e->kind == ExprKind::int_imm || e->kind == ExprKind::float_imm; }

Expr node(ExprKind kind, VType type, ExprArgs args, Op op = Op::add) {
  auto n = make_node<ExprNode>();
  n->kind = kind;
  n->type = type;
  n->op = op;
  n->args = std::move(args);
  return Expr(std::move(n));
}

Expr int_node(DType type, int64_t value, int32_t lanes) {
  auto n = make_node<ExprNode>();
  n->kind = ExprKind::int_imm;
  n->type = {type, lanes};
  n->ival = value;
  return Expr(std::move(n));
}

bool unary_is_legal(Op op, DType type) {
  switch (op) {
    case Op::neg:
    case Op::abs:
      return is_float(type) || is_integer(type);
    case Op::logical_not:
      return type == DType::boolean;
    case Op::bit_not:
      return is_integer(type);
    default:
      return op <= Op::is_nan && is_float(type);
  }
}

bool binary_is_legal(Op op, DType type) {
  switch (op) {
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::div:
    case Op::mod:
    case Op::min:
    case Op::max:
      return is_float(type) || is_integer(type);
    case Op::pow:
      return is_float(type);
    case Op::bit_and:
    case Op::bit_or:
    case Op::bit_xor:
      return is_integer(type) || type == DType::boolean;
    case Op::shl:
    case Op::shr:
      return is_integer(type);
    case Op::logical_and:
    case Op::logical_or:
      return type == DType::boolean;
    default:
      return is_comparison(op) && is_arithmetic(type);
  }
}

void check_defined(const Expr& e, std::string_view what) {
  require(e.defined(), "loop IR: an operand of {} is undefined", what);
}

void check_lanes(int32_t lanes, std::string_view what) {
  require(lanes >= 1, "loop IR: {} needs at least one lane, got {}", what, lanes);
}

void check_mask(const Expr& mask, int32_t lanes, std::string_view what) {
  require(mask.type() == VType{DType::boolean, lanes}, "loop IR: the mask of a {} of {} lanes has type {}", what, lanes,
          mask.type());
}

/// Gives two operands the same number of lanes by broadcasting a scalar. Fails when that is not possible.
void match_lanes(Expr& a, Expr& b, std::string_view what) {
  if (a.lanes() == b.lanes()) return;
  require(a.lanes() == 1 || b.lanes() == 1, "loop IR: {} of {} and {} lanes", what, a.lanes(), b.lanes());
  if (a.lanes() == 1) {
    a = broadcast(std::move(a), b.lanes());
  } else {
    b = broadcast(std::move(b), a.lanes());
  }
}

struct Scalar {
  alignas(8) std::byte bytes[8] = {};
  explicit Scalar(const Expr& e) { eval::write_imm(*e, 1, bytes); }
  Scalar() = default;
};

Expr fold_binary(Op op, const Expr& a, const Expr& b) {
  if (a.elem() == DType::i64 && a.lanes() == 1) {
    const auto x = static_cast<uint64_t>(a->ival);
    const auto y = static_cast<uint64_t>(b->ival);
    if (op == Op::add) return {static_cast<int64_t>(x + y)};
    if (op == Op::sub) return {static_cast<int64_t>(x - y)};
    if (op == Op::mul) return {static_cast<int64_t>(x * y)};
  }
  Scalar result;
  eval::binary(op, a.elem(), 1, Scalar(a).bytes, Scalar(b).bytes, result.bytes);
  return broadcast(eval::read_imm(is_comparison(op) ? DType::boolean : a.elem(), result.bytes), a.lanes());
}

}  // namespace

bool dot_is_legal(VType a, VType b, VType acc) {
  const auto byte = [](DType t) { return t == DType::i8 || t == DType::u8; };
  const bool floats = acc.elem == DType::f32 && a.elem == DType::bf16 && b.elem == DType::bf16;
  const bool bytes = acc.elem == DType::i32 && byte(a.elem) && byte(b.elem);
  const bool words = acc.elem == DType::i32 && a.elem == DType::i16 && b.elem == DType::i16;
  const bool pairs = acc.elem == DType::i16 && a.elem == DType::u8 && b.elem == DType::i8;
  return (floats || bytes || words || pairs) && a.lanes == b.lanes && a.lanes == acc.lanes * (bytes ? 4 : 2);
}

std::string_view name(Op op) { return kNames.at(static_cast<size_t>(op)); }
bool is_comparison(Op op) { return op >= Op::eq && op <= Op::ge; }

std::string text(VType type) {
  return type.lanes == 1 ? std::string(name(type.elem)) : fmt::format("{}x{}", name(type.elem), type.lanes);
}

Expr::Expr(int64_t value) : Expr(int_node(DType::i64, value, 1)) {}

const VType& Expr::type() const {
  require(defined(), "loop IR: the type of an undefined expression was requested");
  return node_->type;
}

Expr imm(DType type, double value, int32_t lanes) {
  check_lanes(lanes, "a constant");
  if (!is_float(type)) {
    alignas(8) std::byte in[8];
    alignas(8) std::byte out[8];
    *reinterpret_cast<double*>(in) = value;
    require(is_arithmetic(type), "loop IR: a constant cannot be of type {}", name(type));
    eval::cast(DType::f64, type, 1, in, out);
    return broadcast(eval::read_imm(type, out), lanes);
  }
  if (type == DType::f32) {
    value = static_cast<double>(static_cast<float>(value));
  } else if (type != DType::f64) {
    alignas(8) std::byte in[8];
    alignas(8) std::byte out[8];
    *reinterpret_cast<double*>(in) = value;
    eval::cast(DType::f64, type, 1, in, out);
    eval::cast(type, DType::f64, 1, out, in);
    value = *reinterpret_cast<double*>(in);
  }
  auto n = make_node<ExprNode>();
  n->kind = ExprKind::float_imm;
  n->type = {type, lanes};
  n->fval = value;
  return Expr(std::move(n));
}

Expr imm_int(DType type, int64_t value, int32_t lanes) {
  check_lanes(lanes, "a constant");
  if (is_float(type)) return imm(type, static_cast<double>(value), lanes);
  require(is_arithmetic(type), "loop IR: a constant cannot be of type {}", name(type));
  if (type != DType::i64) {
    alignas(8) std::byte out[8];
    eval::cast(DType::i64, type, 1, reinterpret_cast<const std::byte*>(&value), out);
    visit_dtype(type, [&](auto tag) {
      using T = decltype(tag);
      if constexpr (std::is_integral_v<T>) value = static_cast<int64_t>(*reinterpret_cast<const T*>(out));
    });
  }
  return int_node(type, value, lanes);
}

Expr unary(Op op, Expr a) {
  check_defined(a, name(op));
  require(unary_is_legal(op, a.elem()), "loop IR: {} is not defined for {}", name(op), a.type());
  if (is_imm(a)) {
    Scalar result;
    eval::unary(op, a.elem(), 1, Scalar(a).bytes, result.bytes);
    return broadcast(eval::read_imm(op == Op::is_nan ? DType::boolean : a.elem(), result.bytes), a.lanes());
  }
  if (a->kind == ExprKind::broadcast) return broadcast(unary(op, a->args[0]), a.lanes());
  if ((op == Op::logical_not || op == Op::bit_not || op == Op::neg) && a->kind == ExprKind::unary && a->op == op) {
    return a->args[0];
  }
  VType type = a.type();
  if (op == Op::is_nan) type.elem = DType::boolean;
  return node(ExprKind::unary, type, {std::move(a)}, op);
}

Expr binary(Op op, Expr a, Expr b) {
  check_defined(a, name(op));
  check_defined(b, name(op));
  require(a.elem() == b.elem(), "loop IR: {} of {} and {}: the element types differ", name(op), a.type(), b.type());
  require(binary_is_legal(op, a.elem()), "loop IR: {} is not defined for {}", name(op), a.type());
  match_lanes(a, b, name(op));
  if (is_imm(a) && is_imm(b)) return fold_binary(op, a, b);
  if (Expr simple = rules::simplify_binary(op, a, b); simple.defined()) return simple;
  VType type = a.type();
  if (is_comparison(op)) type.elem = DType::boolean;
  return node(ExprKind::binary, type, {std::move(a), std::move(b)}, op);
}

Expr fma(Expr a, Expr b, Expr c) {
  check_defined(a, "fma");
  check_defined(b, "fma");
  check_defined(c, "fma");
  require(a.elem() == b.elem() && a.elem() == c.elem(), "loop IR: fma of {}, {} and {}: the element types differ",
          a.type(), b.type(), c.type());
  if (is_integer(a.elem())) return std::move(a) * std::move(b) + std::move(c);
  require(is_float(a.elem()), "loop IR: fma is not defined for {}", a.type());
  match_lanes(a, b, "fma");
  match_lanes(a, c, "fma");
  match_lanes(a, b, "fma");
  if (is_imm(a) && is_imm(b) && is_imm(c)) {
    Scalar result;
    eval::fma(a.elem(), 1, Scalar(a).bytes, Scalar(b).bytes, Scalar(c).bytes, result.bytes);
    return broadcast(eval::read_imm(a.elem(), result.bytes), a.lanes());
  }
  if (a.lanes() > 1) {
    const Expr x = splat_of(a);
    const Expr y = splat_of(b);
    const Expr z = splat_of(c);
    if (x.defined() && y.defined() && z.defined()) return broadcast(fma(x, y, z), a.lanes());
  }
  const VType type = a.type();
  return node(ExprKind::fma, type, {std::move(a), std::move(b), std::move(c)});
}

Expr dot(Expr a, Expr b, Expr acc) {
  check_defined(a, "dot");
  check_defined(b, "dot");
  check_defined(acc, "dot");
  require(
      dot_is_legal(a.type(), b.type(), acc.type()),
      "loop IR: dot of {}, {} and {}; expected two products of bf16 for each f32, two of i16 or four of i8 and u8 for "
      "each i32, or two of u8 and i8 for each i16",
      a.type(), b.type(), acc.type());
  const VType type = acc.type();
  return node(ExprKind::dot, type, {std::move(a), std::move(b), std::move(acc)});
}

Expr select(Expr condition, Expr a, Expr b) {
  check_defined(condition, "select");
  check_defined(a, "select");
  check_defined(b, "select");
  require(condition.elem() == DType::boolean, "loop IR: the condition of select has type {}", condition.type());
  require(a.elem() == b.elem(), "loop IR: select of {} and {}: the element types differ", a.type(), b.type());
  match_lanes(a, b, "select");
  if (condition.lanes() > 1) {
    match_lanes(condition, a, "select");
    match_lanes(a, b, "select");
    if (Expr one = splat_of(condition); one.defined()) condition = one;
  }
  if (condition->kind == ExprKind::int_imm) return condition->ival != 0 ? a : b;
  if (a.get() == b.get()) return a;
  if (a.lanes() > 1 && condition.lanes() == 1) {
    const Expr x = splat_of(a);
    const Expr y = splat_of(b);
    if (x.defined() && y.defined()) return broadcast(select(condition, x, y), a.lanes());
  }
  const VType type = a.type();
  return node(ExprKind::select, type, {std::move(condition), std::move(a), std::move(b)});
}

namespace {

/// Whether `a` is an integer plus a constant whose low bits, which alone remain in the narrower integer `type`, are 0.
bool adds_nothing(DType type, const Expr& a) {
  if (a->kind != ExprKind::binary || a->op != Op::add || a->args[1]->kind != ExprKind::int_imm) return false;
  const bool narrower = is_integer(type) && size_bytes(type) < size_bytes(a.elem());
  return narrower && a->args[1]->ival % (int64_t{1} << (8 * size_bytes(type))) == 0;
}

}  // namespace

Expr cast(DType type, Expr a) {
  check_defined(a, "cast");
  require(is_arithmetic(type) && is_arithmetic(a.elem()), "loop IR: cast of {} to {}", a.type(), name(type));
  if (a.elem() == type) return a;
  if (is_imm(a)) {
    Scalar result;
    eval::cast(a.elem(), type, 1, Scalar(a).bytes, result.bytes);
    return broadcast(eval::read_imm(type, result.bytes), a.lanes());
  }
  if (a->kind == ExprKind::broadcast) return broadcast(cast(type, a->args[0]), a.lanes());
  // A small float that was widened has the same value again when it is narrowed.
  const bool widened = a->kind == ExprKind::cast && a->args[0].elem() == type && is_float(type) && is_float(a.elem());
  if (widened && size_bytes(type) < size_bytes(a.elem())) return a->args[0];
  if (a->kind == ExprKind::ramp && is_integer(type) && size_bytes(type) <= size_bytes(a.elem())) {
    return ramp(cast(type, a->args[0]), cast(type, a->args[1]), a.lanes());
  }
  if (adds_nothing(type, a)) return cast(type, a->args[0]);
  const int32_t lanes = a.lanes();
  return node(ExprKind::cast, {type, lanes}, {std::move(a)});
}

Expr bitcast(DType type, Expr a) {
  check_defined(a, "bitcast");
  const int64_t bytes = a.lanes() * size_bytes(a.elem());
  require(type != DType::boolean && a.elem() != DType::boolean && bytes % size_bytes(type) == 0,
          "loop IR: bitcast of {} to {}: the sizes differ", a.type(), name(type));
  if (a.elem() == type) return a;
  const bool same_size = size_bytes(type) == size_bytes(a.elem());
  if (same_size && is_imm(a)) return broadcast(eval::read_imm(type, Scalar(a).bytes), a.lanes());
  if (same_size && a->kind == ExprKind::broadcast) return broadcast(bitcast(type, a->args[0]), a.lanes());
  const auto lanes = static_cast<int32_t>(bytes / size_bytes(type));
  return node(ExprKind::bitcast, {type, lanes}, {std::move(a)});
}

Expr broadcast(Expr a, int32_t lanes) {
  check_defined(a, "broadcast");
  check_lanes(lanes, "broadcast");
  if (a.lanes() == lanes) return a;
  require(a.lanes() == 1, "loop IR: broadcast of {} to {} lanes", a.type(), lanes);
  if (a->kind == ExprKind::int_imm) return int_node(a.elem(), a->ival, lanes);
  if (a->kind == ExprKind::float_imm) return imm(a.elem(), a->fval, lanes);
  const DType elem = a.elem();
  return node(ExprKind::broadcast, {elem, lanes}, {std::move(a)});
}

Expr ramp(Expr base, Expr stride, int32_t lanes) {
  check_defined(base, "ramp");
  check_defined(stride, "ramp");
  check_lanes(lanes, "ramp");
  require(base.lanes() == 1 && base.type() == stride.type() && is_integer(base.elem()),
          "loop IR: ramp of {} and {}: expected two integer scalars of the same type", base.type(), stride.type());
  if (lanes == 1) return base;
  if (is_const(stride) && stride->ival == 0) return broadcast(std::move(base), lanes);
  const DType elem = base.elem();
  return node(ExprKind::ramp, {elem, lanes}, {std::move(base), std::move(stride)});
}

Expr shuffle(Expr a, Expr b, std::vector<int32_t> picks) {
  check_defined(a, "shuffle");
  check_defined(b, "shuffle");
  const auto lanes = static_cast<int32_t>(picks.size());
  check_lanes(lanes, "shuffle");
  require(a.type() == b.type(), "loop IR: shuffle of {} and {}: expected two of the same type", a.type(), b.type());
  const int32_t each = a.lanes();
  bool is_a = lanes == each, is_b = is_a;
  for (int32_t k = 0; k < lanes; ++k) {
    const int32_t from = picks[static_cast<size_t>(k)];
    require(from >= 0 && from < 2 * each, "loop IR: shuffle picks lane {}, expected 0 to {}", from, 2 * each - 1);
    is_a = is_a && from == k;
    is_b = is_b && from == each + k;
  }
  if (is_a || is_b) return is_a ? a : b;
  const Expr one = splat_of(a), other = splat_of(b);
  if (one.defined() && (a.get() == b.get() || one.get() == other.get())) return broadcast(one, lanes);
  auto n = make_node<ExprNode>();
  n->kind = ExprKind::shuffle;
  n->type = {a.elem(), lanes};
  n->args = {std::move(a), std::move(b)};
  n->picks = std::move(picks);
  return Expr(std::move(n));
}

Expr lane_reduce(Op op, Expr a) {
  check_defined(a, "lane_reduce");
  const bool logical = op == Op::logical_and || op == Op::logical_or;
  require(logical || op == Op::add || op == Op::mul || op == Op::min || op == Op::max, "loop IR: lane_reduce by {}",
          name(op));
  require(binary_is_legal(op, a.elem()), "loop IR: {} is not defined for {}", name(op), a.type());
  if (a.lanes() == 1) return a;
  if (logical || op == Op::min || op == Op::max) {
    if (Expr one = splat_of(a); one.defined()) return one;
  }
  const DType elem = a.elem();
  return node(ExprKind::lane_reduce, {elem, 1}, {std::move(a)}, op);
}

Expr var_expr(VType type, int32_t var) {
  auto n = make_node<ExprNode>();
  n->kind = ExprKind::var;
  n->type = type;
  n->id = var;
  return Expr(std::move(n));
}

Expr reg_expr(VType type, int32_t reg) {
  auto n = make_node<ExprNode>();
  n->kind = ExprKind::reg;
  n->type = type;
  n->id = reg;
  return Expr(std::move(n));
}

Expr load_expr(DType type, int32_t buffer, Expr index, int32_t lanes, int64_t stride, Expr mask) {
  check_defined(index, "load");
  check_lanes(lanes, "load");
  require(index.type() == VType{DType::i64, 1}, "loop IR: the index of a load has type {}, expected i64", index.type());
  if (mask.defined()) check_mask(mask, lanes, "load");
  if (mask.defined() && mask->kind == ExprKind::int_imm) {
    if (mask->ival == 0) return imm_int(type, 0, lanes);
    mask = {};
  }
  if (lanes == 1) stride = 1;
  if (stride == 0 && !mask.defined()) return broadcast(load_expr(type, buffer, std::move(index)), lanes);
  auto n = make_node<ExprNode>();
  n->kind = ExprKind::load;
  n->type = {type, lanes};
  n->id = buffer;
  n->ival = stride;
  n->args.push_back(std::move(index));
  if (mask.defined()) n->args.push_back(std::move(mask));
  return Expr(std::move(n));
}

Expr gather_expr(DType type, int32_t buffer, Expr indices, Expr mask) {
  check_defined(indices, "gather");
  require(indices.elem() == DType::i64, "loop IR: the indices of a gather have type {}, expected i64", indices.type());
  const int32_t lanes = indices.lanes();
  if (mask.defined()) check_mask(mask, lanes, "gather");
  if (lanes == 1) return load_expr(type, buffer, std::move(indices), 1, 1, std::move(mask));
  int64_t stride = 0;
  if (indices->kind == ExprKind::ramp && is_const(indices->args[1], &stride)) {
    return load_expr(type, buffer, indices->args[0], lanes, stride, std::move(mask));
  }
  if (Expr one = splat_of(indices); one.defined()) return load_expr(type, buffer, one, lanes, 0, std::move(mask));
  auto n = make_node<ExprNode>();
  n->kind = ExprKind::gather;
  n->type = {type, lanes};
  n->id = buffer;
  n->args.push_back(std::move(indices));
  if (mask.defined()) n->args.push_back(std::move(mask));
  return Expr(std::move(n));
}

Expr with_args(const Expr& e, ExprArgs args) {
  const auto mask = [&] { return args.size() > 1 ? std::move(args[1]) : Expr(); };
  switch (e->kind) {
    case ExprKind::int_imm:
    case ExprKind::float_imm:
    case ExprKind::var:
    case ExprKind::reg:
      return e;
    case ExprKind::load: {
      Expr m = mask();
      return load_expr(e.elem(), e->id, std::move(args[0]), e.lanes(), e->ival, std::move(m));
    }
    case ExprKind::gather: {
      Expr m = mask();
      return gather_expr(e.elem(), e->id, std::move(args[0]), std::move(m));
    }
    case ExprKind::unary:
      return unary(e->op, std::move(args[0]));
    case ExprKind::binary:
      return binary(e->op, std::move(args[0]), std::move(args[1]));
    case ExprKind::fma:
      return fma(std::move(args[0]), std::move(args[1]), std::move(args[2]));
    case ExprKind::dot:
      return dot(std::move(args[0]), std::move(args[1]), std::move(args[2]));
    case ExprKind::select:
      return select(std::move(args[0]), std::move(args[1]), std::move(args[2]));
    case ExprKind::cast:
      return cast(e.elem(), std::move(args[0]));
    case ExprKind::bitcast:
      return bitcast(e.elem(), std::move(args[0]));
    case ExprKind::broadcast:
      return broadcast(std::move(args[0]), e.lanes());
    case ExprKind::ramp:
      return ramp(std::move(args[0]), std::move(args[1]), e.lanes());
    case ExprKind::shuffle:
      return shuffle(std::move(args[0]), std::move(args[1]), e->picks);
    case ExprKind::lane_reduce:
      return lane_reduce(e->op, std::move(args[0]));
  }
  fail(ErrorKind::internal, "loop IR: unknown kind of expression {}", static_cast<int>(e->kind));
}

bool is_const(const Expr& e, int64_t* value) {
  if (!e.defined() || e->kind != ExprKind::int_imm || e.lanes() != 1) return false;
  if (value != nullptr) *value = e->ival;
  return true;
}

Expr splat_of(const Expr& e) {
  if (e->kind == ExprKind::broadcast) return e->args[0];
  if (e->kind == ExprKind::int_imm) return e.lanes() == 1 ? e : int_node(e.elem(), e->ival, 1);
  if (e->kind == ExprKind::float_imm) return e.lanes() == 1 ? e : imm(e.elem(), e->fval);
  return {};
}

}  // namespace kilter
