#include "loop/eval.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/convert.h"
#include "base/error.h"

namespace kilter::eval {
namespace {

template <class T>
constexpr bool kIsSmallFloat = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
template <class T>
constexpr bool kIsFloat = std::is_floating_point_v<T> || kIsSmallFloat<T>;
template <class T>
constexpr bool kIsInt = std::is_integral_v<T> && !std::is_same_v<T, bool>;

/// The type that one operation computes in: f32 for the small floats, the type itself otherwise.
template <class T>
using Compute = std::conditional_t<kIsSmallFloat<T>, float, T>;

template <class T>
Compute<T> get(const std::byte* p, int32_t lane) {
  return static_cast<Compute<T>>(reinterpret_cast<const T*>(p)[lane]);
}
template <class T, class V>
void put(std::byte* p, int32_t lane, V value) {
  reinterpret_cast<T*>(p)[lane] = static_cast<T>(value);
}

[[noreturn]] void illegal(Op op) { fail(ErrorKind::internal, "loop IR: {} is not defined for this type", name(op)); }

template <class T, class F>
void each(int32_t lanes, const std::byte* a, std::byte* out, F f) {
  for (int32_t i = 0; i < lanes; ++i) put<T>(out, i, f(get<T>(a, i)));
}
template <class T, class F>
void each(int32_t lanes, const std::byte* a, const std::byte* b, std::byte* out, F f) {
  for (int32_t i = 0; i < lanes; ++i) put<T>(out, i, f(get<T>(a, i), get<T>(b, i)));
}

double function(Op op, double x) {
  switch (op) {
    case Op::exp:
      return std::exp(x);
    case Op::log:
      return std::log(x);
    case Op::tanh:
      return std::tanh(x);
    case Op::erf:
      return std::erf(x);
    case Op::sigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case Op::sin:
      return std::sin(x);
    case Op::cos:
      return std::cos(x);
    case Op::tan:
      return std::tan(x);
    case Op::asin:
      return std::asin(x);
    case Op::acos:
      return std::acos(x);
    case Op::atan:
      return std::atan(x);
    case Op::sinh:
      return std::sinh(x);
    case Op::cosh:
      return std::cosh(x);
    case Op::asinh:
      return std::asinh(x);
    case Op::acosh:
      return std::acosh(x);
    case Op::atanh:
      return std::atanh(x);
    case Op::log1p:
      return std::log1p(x);
    case Op::expm1:
      return std::expm1(x);
    default:
      illegal(op);
  }
}

template <class T>
void unary_float(Op op, int32_t n, const std::byte* a, std::byte* out) {
  using C = Compute<T>;
  switch (op) {
    case Op::neg:
      return each<T>(n, a, out, [](C x) { return -x; });
    case Op::abs:
      return each<T>(n, a, out, [](C x) { return std::fabs(x); });
    case Op::floor:
      return each<T>(n, a, out, [](C x) { return std::floor(x); });
    case Op::ceil:
      return each<T>(n, a, out, [](C x) { return std::ceil(x); });
    case Op::round_even:
      return each<T>(n, a, out, [](C x) { return std::nearbyint(x); });
    case Op::trunc:
      return each<T>(n, a, out, [](C x) { return std::trunc(x); });
    case Op::sqrt:
      return each<T>(n, a, out, [](C x) { return std::sqrt(x); });
    case Op::is_nan:
      for (int32_t i = 0; i < n; ++i) put<bool>(out, i, std::isnan(get<T>(a, i)));
      return;
    default:
      return each<T>(n, a, out, [op](C x) { return static_cast<C>(function(op, static_cast<double>(x))); });
  }
}

template <class T>
void unary_int(Op op, int32_t n, const std::byte* a, std::byte* out) {
  switch (op) {
    case Op::neg:
      return each<T>(n, a, out, [](T x) { return uint64_t{0} - static_cast<uint64_t>(x); });
    case Op::abs:
      return each<T>(n, a, out,
                     [](T x) { return x < 0 ? uint64_t{0} - static_cast<uint64_t>(x) : static_cast<uint64_t>(x); });
    case Op::bit_not:
      return each<T>(n, a, out, [](T x) { return ~static_cast<uint64_t>(x); });
    default:
      illegal(op);
  }
}

template <class T>
T divide(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(a));
  }
  return static_cast<T>(a / b);
}
template <class T>
T modulo(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return static_cast<T>(a % b);
}
template <class T>
bool shifts_out(T count) {
  return static_cast<uint64_t>(count) >= sizeof(T) * 8;
}

template <class T>
void binary_float(Op op, int32_t n, const std::byte* a, const std::byte* b, std::byte* out) {
  using C = Compute<T>;
  switch (op) {
    case Op::add:
      return each<T>(n, a, b, out, [](C x, C y) { return x + y; });
    case Op::sub:
      return each<T>(n, a, b, out, [](C x, C y) { return x - y; });
    case Op::mul:
      return each<T>(n, a, b, out, [](C x, C y) { return x * y; });
    case Op::div:
      return each<T>(n, a, b, out, [](C x, C y) { return x / y; });
    case Op::mod:
      return each<T>(n, a, b, out, [](C x, C y) { return std::fmod(x, y); });
    case Op::min:
      return each<T>(n, a, b, out, [](C x, C y) { return x < y ? x : y; });
    case Op::max:
      return each<T>(n, a, b, out, [](C x, C y) { return x > y ? x : y; });
    case Op::pow:
      return each<T>(n, a, b, out,
                     [](C x, C y) { return static_cast<C>(std::pow(static_cast<double>(x), static_cast<double>(y))); });
    default:
      illegal(op);
  }
}

template <class T>
void binary_int(Op op, int32_t n, const std::byte* a, const std::byte* b, std::byte* out) {
  using U = uint64_t;
  switch (op) {
    case Op::add:
      return each<T>(n, a, b, out, [](T x, T y) { return static_cast<U>(x) + static_cast<U>(y); });
    case Op::sub:
      return each<T>(n, a, b, out, [](T x, T y) { return static_cast<U>(x) - static_cast<U>(y); });
    case Op::mul:
      return each<T>(n, a, b, out, [](T x, T y) { return static_cast<U>(x) * static_cast<U>(y); });
    case Op::div:
      return each<T>(n, a, b, out, [](T x, T y) { return divide(x, y); });
    case Op::mod:
      return each<T>(n, a, b, out, [](T x, T y) { return modulo(x, y); });
    case Op::min:
      return each<T>(n, a, b, out, [](T x, T y) { return x < y ? x : y; });
    case Op::max:
      return each<T>(n, a, b, out, [](T x, T y) { return x > y ? x : y; });
    case Op::bit_and:
      return each<T>(n, a, b, out, [](T x, T y) { return x & y; });
    case Op::bit_or:
      return each<T>(n, a, b, out, [](T x, T y) { return x | y; });
    case Op::bit_xor:
      return each<T>(n, a, b, out, [](T x, T y) { return x ^ y; });
    case Op::shl:
      return each<T>(n, a, b, out,
                     [](T x, T y) { return shifts_out(y) ? U{0} : static_cast<U>(x) << static_cast<U>(y); });
    case Op::shr:
      return each<T>(n, a, b, out, [](T x, T y) {
        if (shifts_out(y)) return x < 0 ? static_cast<T>(-1) : T{0};
        return static_cast<T>(x >> y);
      });
    default:
      illegal(op);
  }
}

void binary_bool(Op op, int32_t n, const std::byte* a, const std::byte* b, std::byte* out) {
  switch (op) {
    case Op::bit_and:
    case Op::logical_and:
      return each<bool>(n, a, b, out, [](bool x, bool y) { return x && y; });
    case Op::bit_or:
    case Op::logical_or:
      return each<bool>(n, a, b, out, [](bool x, bool y) { return x || y; });
    case Op::bit_xor:
      return each<bool>(n, a, b, out, [](bool x, bool y) { return x != y; });
    default:
      illegal(op);
  }
}

template <class T, class F>
void compare_each(int32_t n, const std::byte* a, const std::byte* b, std::byte* out, F f) {
  for (int32_t i = 0; i < n; ++i) put<bool>(out, i, f(get<T>(a, i), get<T>(b, i)));
}

template <class T>
void compare(Op op, int32_t n, const std::byte* a, const std::byte* b, std::byte* out) {
  using C = Compute<T>;
  switch (op) {
    case Op::eq:
      return compare_each<T>(n, a, b, out, [](C x, C y) { return x == y; });
    case Op::ne:
      return compare_each<T>(n, a, b, out, [](C x, C y) { return x != y; });
    case Op::lt:
      return compare_each<T>(n, a, b, out, [](C x, C y) { return x < y; });
    case Op::le:
      return compare_each<T>(n, a, b, out, [](C x, C y) { return x <= y; });
    case Op::gt:
      return compare_each<T>(n, a, b, out, [](C x, C y) { return x > y; });
    case Op::ge:
      return compare_each<T>(n, a, b, out, [](C x, C y) { return x >= y; });
    default:
      illegal(op);
  }
}

}  // namespace

void unary(Op op, DType type, int32_t lanes, const std::byte* a, std::byte* out) {
  visit_dtype(type, [&](auto tag) {
    using T = decltype(tag);
    if constexpr (kIsFloat<T>) {
      unary_float<T>(op, lanes, a, out);
    } else if constexpr (kIsInt<T>) {
      unary_int<T>(op, lanes, a, out);
    } else {
      if (op != Op::logical_not) illegal(op);
      each<bool>(lanes, a, out, [](bool x) { return !x; });
    }
  });
}

void binary(Op op, DType type, int32_t lanes, const std::byte* a, const std::byte* b, std::byte* out) {
  visit_dtype(type, [&](auto tag) {
    using T = decltype(tag);
    if (is_comparison(op)) {
      compare<T>(op, lanes, a, b, out);
    } else if constexpr (kIsFloat<T>) {
      binary_float<T>(op, lanes, a, b, out);
    } else if constexpr (kIsInt<T>) {
      binary_int<T>(op, lanes, a, b, out);
    } else {
      binary_bool(op, lanes, a, b, out);
    }
  });
}

void fma(DType type, int32_t lanes, const std::byte* a, const std::byte* b, const std::byte* c, std::byte* out) {
  visit_dtype(type, [&](auto tag) {
    using T = decltype(tag);
    if constexpr (kIsFloat<T>) {
      for (int32_t i = 0; i < lanes; ++i) put<T>(out, i, std::fma(get<T>(a, i), get<T>(b, i), get<T>(c, i)));
    }
  });
}

void dot(DType a_type, DType b_type, int32_t lanes, int32_t group, const std::byte* a, const std::byte* b,
         const std::byte* acc, std::byte* out) {
  if (a_type == DType::bf16) {
    for (int32_t l = 0; l < lanes; ++l) {
      float sum = get<float>(acc, l);
      for (int32_t i = l * group; i < (l + 1) * group; ++i) sum += get<BFloat16>(a, i) * get<BFloat16>(b, i);
      put<float>(out, l, sum);
    }
    return;
  }
  const auto element = [](DType type, const std::byte* from, int32_t i) {
    return static_cast<uint32_t>(type == DType::i16  ? int32_t{get<int16_t>(from, i)}
                                 : type == DType::i8 ? int32_t{get<int8_t>(from, i)}
                                                     : int32_t{get<uint8_t>(from, i)});
  };
  if (size_bytes(a_type) * group == 2) {
    const auto saturated = [](int32_t v) { return std::clamp<int32_t>(v, INT16_MIN, INT16_MAX); };
    for (int32_t l = 0; l < lanes; ++l) {
      const uint32_t pair = element(a_type, a, 2 * l) * element(b_type, b, 2 * l) +
                            element(a_type, a, 2 * l + 1) * element(b_type, b, 2 * l + 1);
      const int32_t sum = get<int16_t>(acc, l) + saturated(static_cast<int32_t>(pair));
      put<int16_t>(out, l, static_cast<int16_t>(saturated(sum)));
    }
    return;
  }
  for (int32_t l = 0; l < lanes; ++l) {
    auto sum = static_cast<uint32_t>(get<int32_t>(acc, l));
    for (int32_t i = l * group; i < (l + 1) * group; ++i) sum += element(a_type, a, i) * element(b_type, b, i);
    put<int32_t>(out, l, static_cast<int32_t>(sum));
  }
}

void cast(DType from, DType to, int32_t lanes, const std::byte* a, std::byte* out) {
  visit_dtype(from, [&](auto from_tag) {
    using From = decltype(from_tag);
    visit_dtype(to, [&](auto to_tag) {
      using To = decltype(to_tag);
      for (int32_t i = 0; i < lanes; ++i) reinterpret_cast<To*>(out)[i] = convert<To>(get<From>(a, i));
    });
  });
}

void lane_reduce(Op op, DType type, int32_t lanes, const std::byte* a, std::byte* out) {
  const auto size = static_cast<size_t>(size_bytes(type));
  if ((lanes & (lanes - 1)) != 0) {
    std::memcpy(out, a, size);
    for (int32_t i = 1; i < lanes; ++i) binary(op, type, 1, out, a + i * size, out);
    return;
  }
  std::vector<uint64_t> work((static_cast<size_t>(lanes) * size + 7) / 8);
  auto* bytes = reinterpret_cast<std::byte*>(work.data());
  std::memcpy(bytes, a, lanes * size);
  for (int32_t half = lanes / 2; half > 0; half /= 2) binary(op, type, half, bytes, bytes + half * size, bytes);
  std::memcpy(out, bytes, size);
}

void write_imm(const ExprNode& imm, int32_t lanes, std::byte* out) {
  visit_dtype(imm.type.elem, [&](auto tag) {
    using T = decltype(tag);
    for (int32_t i = 0; i < lanes; ++i) {
      if constexpr (kIsFloat<T>) {
        reinterpret_cast<T*>(out)[i] = convert<T>(imm.fval);
      } else if constexpr (std::is_same_v<T, bool>) {
        reinterpret_cast<T*>(out)[i] = imm.ival != 0;
      } else {
        reinterpret_cast<T*>(out)[i] = static_cast<T>(imm.ival);
      }
    }
  });
}

Expr read_imm(DType type, const std::byte* value) {
  Expr result;
  visit_dtype(type, [&](auto tag) {
    using T = decltype(tag);
    if constexpr (kIsFloat<T>) {
      result = imm(type, static_cast<double>(get<T>(value, 0)));
    } else {
      result = imm_int(type, static_cast<int64_t>(*reinterpret_cast<const T*>(value)));
    }
  });
  return result;
}

}  // namespace kilter::eval
