#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>
#include <utility>

#include "base/convert.h"
#include "codegen/opencl/writer.h"
#include "loop/small_float.h"
#include "loop/text.h"

namespace kilter::codegen {
namespace {

/// Returns the integer type of so many bytes.
DType integer_type(int64_t bytes, bool is_signed) {
  switch (bytes) {
    case 1:
      return is_signed ? DType::i8 : DType::u8;
    case 2:
      return is_signed ? DType::i16 : DType::u16;
    case 4:
      return is_signed ? DType::i32 : DType::u32;
    default:
      return is_signed ? DType::i64 : DType::u64;
  }
}

/// Puts a number with a sign in parentheses.
std::string operand(bool has_sign, std::string number) { return has_sign ? "(" + number + ")" : std::move(number); }

std::string float_text(DType type, double value) {
  const bool single = type == DType::f32;
  if (std::isnan(value)) return single ? "as_float(0x7fc00000)" : "as_double(0x7ff8000000000000L)";
  const std::string_view of = single ? "float" : "double";
  if (std::isinf(value)) return fmt::format("(({})({}INFINITY))", of, value < 0 ? "-" : "");
  return operand(std::signbit(value), fmt::format("{:a}{}", value, single ? "f" : ""));
}

std::string int_text(DType type, int64_t value) {
  switch (type) {
    case DType::boolean:
      return value != 0 ? "true" : "false";
    case DType::i64:
      if (value == std::numeric_limits<int64_t>::min()) return "LONG_MIN";
      return operand(value < 0, fmt::format("{}L", value));
    case DType::i32:
      if (value == std::numeric_limits<int32_t>::min()) return "INT_MIN";
      return operand(value < 0, fmt::format("{}", value));
    case DType::u64:
      return fmt::format("{}UL", static_cast<uint64_t>(value));
    case DType::u32:
      return fmt::format("{}U", static_cast<uint32_t>(value));
    default:
      return fmt::format("(({}){})", opencl_type({type, 1}), value);
  }
}

std::string_view operator_text(Op op) {
  if (const loop_text::Infix* infix = loop_text::infix(op)) return infix->symbol;
  switch (op) {
    case Op::bit_and:
    case Op::logical_and:
      return "&";
    case Op::bit_or:
    case Op::logical_or:
      return "|";
    case Op::bit_xor:
      return "^";
    case Op::shl:
      return "<<";
    case Op::shr:
      return ">>";
    default:
      fail(ErrorKind::internal, "OpenCL C: {} has no operator; expand_math has to run first", name(op));
  }
}

bool has_name(const ExprNode& e) {
  return e.kind == ExprKind::var || e.kind == ExprKind::reg || e.kind == ExprKind::int_imm ||
         e.kind == ExprKind::float_imm;
}

/// Returns the mask (int) of a comparison of vectors, whose result has elements of the size of `type`.
std::string mask_of(VType type, const std::string& comparison) {
  return size_bytes(type.elem) == 4 ? comparison : fmt::format("convert_int{}({})", type.lanes, comparison);
}

}  // namespace

std::string OpenClWriter::component(const std::string& name, int32_t lanes, int32_t lane) {
  return lanes == 1 ? name : fmt::format("{}.s{:x}", name, lane);
}

void OpenClWriter::count(const Expr& e) {
  if (has_name(*e) || ++uses_[e.get()] > 1) return;
  for (const Expr& arg : e->args) count(arg);
}

std::string OpenClWriter::named(VType type, const std::string& text) {
  std::string name = fmt::format("t{}", names_++);
  line(fmt::format("const {} {} = {};", opencl_type(type), name, text));
  return name;
}

std::string OpenClWriter::value(const Expr& e) {
  const auto known = named_.find(e.get());
  if (known != named_.end()) return known->second;
  std::string text = compute(*e);
  const auto uses = uses_.find(e.get());
  if (uses == uses_.end() || uses->second < 2) return text;
  return named_.emplace(e.get(), named(e.type(), text)).first->second;
}

std::string OpenClWriter::index(const Expr& e) {
  const bool before = std::exchange(plain_, true);
  std::string text = value(e);
  plain_ = before;
  return text;
}

std::string OpenClWriter::name_of(const Expr& e) {
  std::string text = value(e);
  const bool is_name = has_name(*e) && e->kind != ExprKind::int_imm && e->kind != ExprKind::float_imm;
  return is_name || named_.contains(e.get()) ? text : named(e.type(), text);
}

template <class F>
std::string OpenClWriter::each_lane(VType type, const F& lane) {
  if (type.lanes == 1) return lane(0);
  std::string all;
  for (int32_t k = 0; k < type.lanes; ++k) all += fmt::format("{}{}", k == 0 ? "" : ", ", lane(k));
  return fmt::format("(({})({}))", opencl_type(type), all);
}

std::string OpenClWriter::call_lanes(VType type, std::string_view function, const std::vector<Expr>& args) {
  std::vector<std::string> names;
  for (const Expr& arg : args) names.push_back(type.lanes == 1 ? value(arg) : name_of(arg));
  return each_lane(type, [&](int32_t k) {
    std::vector<std::string> lanes;
    for (size_t i = 0; i < args.size(); ++i) lanes.push_back(component(names[i], args[i].lanes(), k));
    return fmt::format("{}({})", function, fmt::join(lanes, ", "));
  });
}

std::string OpenClWriter::compute(const ExprNode& e) {
  kernel_.doubles |= e.type.elem == DType::f64;
  const auto arg = [&](size_t i) { return value(e.args[i]); };
  switch (e.kind) {
    case ExprKind::int_imm:
    case ExprKind::float_imm:
      return constant(e);
    case ExprKind::var:
      return var(e.id);
    case ExprKind::reg:
      return reg(e.id);
    case ExprKind::load:
      return load(e);
    case ExprKind::gather:
      return gather(e);
    case ExprKind::unary:
      return unary(e);
    case ExprKind::binary:
      return binary(e);
    case ExprKind::fma: {
      if (is_float(e.type.elem) && !is_small_float(e.type.elem))
        return fmt::format("fma({}, {}, {})", arg(0), arg(1), arg(2));
      if (is_small_float(e.type.elem))
        return call_lanes(e.type, fmt::format("fma_{}", name(e.type.elem)), {e.args[0], e.args[1], e.args[2]});
      return value(e.args[0] * e.args[1] + e.args[2]);
    }
    case ExprKind::select:
      return select(e);
    case ExprKind::cast:
      return cast(e.type, e.args[0]);
    case ExprKind::bitcast:
      return opencl_type(e.args[0].type()) == opencl_type(e.type)
                 ? arg(0)
                 : fmt::format("as_{}({})", opencl_type(e.type), arg(0));
    case ExprKind::broadcast:
      return splat(e.type, arg(0));
    case ExprKind::ramp:
      return ramp(e);
    case ExprKind::lane_reduce:
      return lane_reduce(e);
    case ExprKind::shuffle: {
      const int32_t lanes = e.args[0].lanes();
      const std::string a = name_of(e.args[0]), b = name_of(e.args[1]);
      return each_lane(e.type, [&](int32_t k) {
        const int32_t pick = e.picks[static_cast<size_t>(k)];
        return pick < lanes ? component(a, lanes, pick) : component(b, lanes, pick - lanes);
      });
    }
    default:
      fail(ErrorKind::internal, "OpenCL C for '{}': expression of kind {}", func_.name, static_cast<int>(e.kind));
  }
}

std::string OpenClWriter::splat(VType type, const std::string& scalar) const {
  if (type.lanes == 1) return scalar;
  return type.elem == DType::boolean ? fmt::format("((int{})({} ? -1 : 0))", type.lanes, scalar)
                                     : fmt::format("(({})({}))", opencl_type(type), scalar);
}

std::string OpenClWriter::constant(const ExprNode& e) const {
  const DType type = e.type.elem;
  std::string scalar;
  if (e.kind == ExprKind::int_imm) {
    scalar = int_text(type, e.ival);
  } else if (type == DType::f16) {
    scalar = fmt::format("((ushort){})", Half(static_cast<float>(e.fval)).bits);
  } else if (type == DType::bf16) {
    scalar = fmt::format("((ushort){})", BFloat16(static_cast<float>(e.fval)).bits);
  } else {
    scalar = float_text(type, type == DType::f32 ? static_cast<float>(e.fval) : e.fval);
  }
  return splat(e.type, scalar);
}

std::string OpenClWriter::ramp(const ExprNode& e) {
  if (e.type.lanes == 1) return value(e.args[0]);
  const std::string base = splat(e.type, value(e.args[0])), stride = splat(e.type, value(e.args[1]));
  const std::string steps = each_lane(e.type, [&](int32_t k) { return int_text(e.type.elem, k); });
  return fmt::format("({} + {} * {})", base, steps, stride);
}

std::string OpenClWriter::load(const ExprNode& e) {
  const int32_t lanes = e.type.lanes;
  if (lanes > 1 && e.ival == 1 && e.args.size() < 2) {
    const std::string read = fmt::format("vload{}(0, {} + {})", lanes, buffer(e.id), index(e.args[0]));
    if (e.type.elem != DType::boolean) return read;
    return fmt::format("convert_int{}({} != (uchar{})(0))", lanes, read, lanes);
  }
  const std::string at = lanes == 1 ? index(e.args[0]) : named({DType::i64, 1}, index(e.args[0]));
  const std::string mask = e.args.size() < 2 ? "" : name_of(e.args[1]);
  return each_lane(e.type, [&](int32_t k) {
    const int64_t offset = k * e.ival;
    return element(e, offset == 0 ? at : fmt::format("{} + ({})", at, offset), mask, k);
  });
}

std::string OpenClWriter::gather(const ExprNode& e) {
  const std::string indices = name_of(e.args[0]);
  const std::string mask = e.args.size() < 2 ? "" : name_of(e.args[1]);
  return each_lane(e.type, [&](int32_t k) { return element(e, component(indices, e.type.lanes, k), mask, k); });
}

std::string OpenClWriter::element(const ExprNode& e, const std::string& at, const std::string& mask, int32_t lane) {
  const bool is_vector = e.type.lanes > 1;
  std::string read = fmt::format("{}[{}]", buffer(e.id), at);
  if (e.type.elem == DType::boolean) read = fmt::format("({} != 0{})", read, is_vector ? " ? -1 : 0" : "");
  if (mask.empty()) return read;
  const DType type = e.type.elem == DType::boolean && is_vector ? DType::i32 : e.type.elem;
  const int32_t mask_lanes = e.args[1].lanes();
  return fmt::format("({} ? {} : ({})0)", component(mask, mask_lanes, lane), read, opencl_type({type, 1}));
}

std::string OpenClWriter::select(const ExprNode& e) {
  std::string condition = value(e.args[0]);
  const std::string a = value(e.args[1]), b = value(e.args[2]);
  if (e.args[0].lanes() > 1 && e.type.elem != DType::boolean && size_bytes(e.type.elem) != 4)
    condition = fmt::format("convert_{}({})", opencl_type({integer_type(size_bytes(e.type.elem), true), e.type.lanes}),
                            condition);
  return fmt::format("({} ? {} : {})", condition, a, b);
}

std::string OpenClWriter::unary(const ExprNode& e) {
  const Expr& x = e.args[0];
  const VType type = x.type();
  if (e.op == Op::logical_not) return fmt::format("({}{})", type.lanes == 1 ? "!" : "~", value(x));
  if (is_small_float(type.elem)) {
    const Expr wide = kilter::unary(e.op, kilter::cast(DType::f32, x));
    return value(e.op == Op::is_nan ? wide : kilter::cast(type.elem, wide));
  }
  if (!is_float(type.elem)) {
    if (e.op == Op::abs)
      return is_signed_integer(type.elem)
                 ? call_lanes(type, fmt::format("absolute_{}", opencl_type({type.elem, 1})), {x})
                 : value(x);
    if (e.op == Op::bit_not) return narrowed(type, fmt::format("~{}", value(x)));
    return wrapped(type, "-", splat(type, int_text(type.elem, 0)), value(x));
  }
  const std::string a = value(x);
  switch (e.op) {
    case Op::neg:
      return fmt::format("(-{})", a);
    case Op::abs:
      return fmt::format("fabs({})", a);
    case Op::round_even:
      return fmt::format("rint({})", a);
    case Op::is_nan:
      return type.lanes == 1 ? fmt::format("(isnan({}) != 0)", a) : mask_of(type, fmt::format("isnan({})", a));
    case Op::floor:
    case Op::ceil:
    case Op::trunc:
    case Op::sqrt:
      return fmt::format("{}({})", name(e.op), a);
    default:
      fail(ErrorKind::internal, "OpenCL C for '{}': {} of {} has no function; expand_math has to run first", func_.name,
           name(e.op), name(type.elem));
  }
}

std::string OpenClWriter::binary(const ExprNode& e) {
  const VType type = {e.args[0].elem(), std::max(e.args[0].lanes(), e.args[1].lanes())};
  if (is_small_float(type.elem)) {
    const Expr wide = kilter::binary(e.op, kilter::cast(DType::f32, e.args[0]), kilter::cast(DType::f32, e.args[1]));
    return value(is_comparison(e.op) ? wide : kilter::cast(type.elem, wide));
  }
  if (!is_float(type.elem) && type.elem != DType::boolean && needs_function(e)) {
    const std::string_view function = e.op == Op::div   ? "divide"
                                      : e.op == Op::mod ? "modulo"
                                      : e.op == Op::shl ? "shift_left"
                                                        : "shift_right";
    return call_lanes(type, fmt::format("{}_{}", function, opencl_type({type.elem, 1})), {e.args[0], e.args[1]});
  }
  const auto side = [&](size_t i) {
    const std::string text = value(e.args[i]);
    return e.args[i].lanes() < type.lanes ? splat(type, text) : text;
  };
  const std::string a = side(0), b = side(1);
  return combine(e.op, type, a, b);
}

bool OpenClWriter::needs_function(const ExprNode& e) {
  const Expr scalar = e.args[1].lanes() == 1 ? e.args[1] : splat_of(e.args[1]);
  int64_t known = 0;
  const bool is_known = scalar.defined() && is_const(scalar, &known);
  if (e.op == Op::div || e.op == Op::mod) return !is_known || known == 0 || known == -1;
  if (e.op != Op::shl && e.op != Op::shr) return false;
  return !is_known || known < 0 || known >= 8 * size_bytes(e.type.elem);
}

std::string OpenClWriter::combine(Op op, VType type, const std::string& a, const std::string& b) const {
  if (op == Op::min || op == Op::max) {
    const std::string_view of_float = op == Op::min ? "least" : "greatest";
    return is_float(type.elem) ? fmt::format("{}_{}({}, {})", of_float, opencl_type(type), a, b)
                               : fmt::format("{}({}, {})", name(op), a, b);
  }
  const std::string_view sign = operator_text(op);
  const std::string plain = fmt::format("({} {} {})", a, sign, b);
  if (is_comparison(op)) {
    if (type.lanes == 1) return plain;
    // In a vector, true is -1.
    return type.elem == DType::boolean ? fmt::format("({} {} {})", b, sign, a) : mask_of(type, plain);
  }
  if (type.elem == DType::boolean) return type.lanes == 1 ? fmt::format("((bool){})", plain) : plain;
  if (is_float(type.elem)) return plain;
  // Signed overflow is undefined in OpenCL C, but wraps in the loop IR.
  const bool overflows = op == Op::add || op == Op::sub || op == Op::mul || op == Op::shl;
  return overflows && !plain_ ? wrapped(type, sign, a, b) : narrowed(type, plain);
}

std::string OpenClWriter::wrapped(VType type, std::string_view sign, const std::string& a, const std::string& b) const {
  // Operands smaller than int would become int, whose products can overflow.
  const DType wide =
      type.lanes == 1 && size_bytes(type.elem) < 4 ? DType::u32 : integer_type(size_bytes(type.elem), false);
  if (type.lanes == 1) {
    const std::string u = opencl_type({wide, 1});
    return fmt::format("(({})(({}){} {} ({}){}))", opencl_type(type), u, a, sign, u, b);
  }
  const std::string u = opencl_type({wide, type.lanes});
  if (u == opencl_type(type)) return fmt::format("({} {} {})", a, sign, b);
  return fmt::format("as_{}(as_{}({}) {} as_{}({}))", opencl_type(type), u, a, sign, u, b);
}

std::string OpenClWriter::narrowed(VType type, const std::string& text) const {
  return type.lanes == 1 && size_bytes(type.elem) < 4 ? fmt::format("(({}){})", opencl_type(type), text)
                                                      : fmt::format("({})", text);
}

std::string OpenClWriter::cast(VType to, const Expr& x) {
  const VType from = x.type();
  const auto scalar_name = [](DType type) { return opencl_type({type, 1}); };
  if (from.elem == to.elem) return value(x);
  if (is_small_float(from.elem)) {
    if (to.elem == DType::f32) return call_lanes(to, fmt::format("from_{}", name(from.elem)), {x});
    if (to.elem != DType::boolean) return value(kilter::cast(to.elem, kilter::cast(DType::f32, x)));
  }
  if (is_small_float(to.elem)) {
    if (from.elem == DType::f32) return call_lanes(to, fmt::format("to_{}", name(to.elem)), {x});
    if (from.elem == DType::f64) return call_lanes(to, fmt::format("double_to_{}", name(to.elem)), {x});
    return value(kilter::cast(to.elem, kilter::cast(DType::f32, x)));
  }
  if (to.elem == DType::boolean) {
    const std::string magnitude = is_small_float(from.elem) ? fmt::format("({} & (ushort)0x7fff)", value(x)) : value(x);
    const std::string zero = to.lanes == 1 ? "0" : fmt::format("({})(0)", opencl_type(from));
    const std::string differs = fmt::format("({} != {})", magnitude, zero);
    return to.lanes == 1 ? differs : mask_of(from, differs);
  }
  if (is_float(from.elem) && !is_float(to.elem))
    return call_lanes(to, fmt::format("{}_to_{}", scalar_name(from.elem), scalar_name(to.elem)), {x});
  if (to.lanes == 1) return fmt::format("(({}){})", opencl_type(to), value(x));
  const std::string v = from.elem == DType::boolean ? fmt::format("({} & 1)", value(x)) : value(x);
  return fmt::format("convert_{}({})", opencl_type(to), v);
}

// Combines lane k with lane k + n/2, then halves again, if n is a power of two; otherwise in order.
std::string OpenClWriter::lane_reduce(const ExprNode& e) {
  const int32_t lanes = e.args[0].lanes();
  if (lanes == 1) return value(e.args[0]);
  const DType type = e.type.elem;
  const std::string name = name_of(e.args[0]);
  std::vector<std::string> parts;
  for (int32_t k = 0; k < lanes; ++k) {
    const std::string lane = component(name, lanes, k);
    parts.push_back(type == DType::boolean ? fmt::format("({} != 0)", lane) : lane);
  }
  const auto both = [&](const std::string& a, const std::string& b) {
    if (!is_small_float(type)) return combine(e.op, {type, 1}, a, b);
    const std::string_view t = kilter::name(type);
    return fmt::format(
        "to_{}({})", t,
        combine(e.op, {DType::f32, 1}, fmt::format("from_{}({})", t, a), fmt::format("from_{}({})", t, b)));
  };
  if ((lanes & (lanes - 1)) != 0) {
    std::string result = parts[0];
    for (size_t k = 1; k < parts.size(); ++k) result = both(result, parts[k]);
    return result;
  }
  for (size_t half = parts.size() / 2; half > 0; half /= 2) {
    for (size_t k = 0; k < half; ++k) parts[k] = both(parts[k], parts[k + half]);
    parts.resize(half);
  }
  return parts.front();
}

}  // namespace kilter::codegen
