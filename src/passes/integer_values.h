// Descriptions of the values of a quantised network, for the pass integer_arithmetic.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "base/tensor.h"
#include "graph/graph.h"

namespace kilter {

/// The largest magnitude of an element of an operand of IntegerConv and IntegerMatMul.
constexpr int64_t kMostInteger = 255;
constexpr double kUnbounded = std::numeric_limits<double>::infinity();

/// An f32 value whose elements are integers from `low` to `high`.
struct Integers {
  ValueId value = kNone;
  int64_t low = 0, high = 0;

  /// Whether IntegerConv and IntegerMatMul accept it.
  bool multiplies() const { return low >= -kMostInteger && high <= kMostInteger && high - low <= kMostInteger; }
};

/// A tensor of codes: integers plus a zero point.
struct Codes {
  Integers integers;
  int64_t zero = 0;
};

/// A constant operand: integers times a scale.
struct Weights {
  Tensor integers;  ///< f32
  Tensor scale;     ///< f64; one element, or broadcasts to the integers
};

struct Term {
  Integers x;
  Tensor factor;  ///< f64
};

/// A real value: a sum of integers times factors plus a constant, then clamped.
struct Real {
  std::vector<Term> terms;
  Tensor summand;  ///< f64; undefined: 0
  double low = -kUnbounded, high = kUnbounded;

  bool clamped() const { return low != -kUnbounded || high != kUnbounded; }
  /// The only term, if the value is integers times one scale; null otherwise.
  const Term* scaled() const {
    const bool one = terms.size() == 1 && terms[0].factor.elems() == 1 && !summand.defined() && !clamped();
    return one ? &terms[0] : nullptr;
  }
};

/// The elements in f64.
inline Tensor widened(const Tensor& t) {
  Tensor out(DType::f64, t.shape());
  for (int64_t i = 0; i < t.elems(); ++i) out.data<double>()[i] = t.as_double(i);
  return out;
}

/// f(x) for each element of a tensor of f64.
template <class F>
Tensor mapped(const Tensor& t, F f) {
  Tensor out(DType::f64, t.shape());
  for (int64_t i = 0; i < t.elems(); ++i) out.data<double>()[i] = f(t.data<double>()[i]);
  return out;
}

/// f(a, b), where one of them has one element or both have one shape; nullopt otherwise.
template <class F>
std::optional<Tensor> combined(const Tensor& a, const Tensor& b, F f) {
  if (b.elems() == 1) return mapped(a, [&](double x) { return f(x, b.data<double>()[0]); });
  if (a.elems() == 1) return mapped(b, [&](double x) { return f(a.data<double>()[0], x); });
  if (a.shape() != b.shape()) return std::nullopt;
  Tensor out(DType::f64, a.shape());
  for (int64_t i = 0; i < a.elems(); ++i) out.data<double>()[i] = f(a.data<double>()[i], b.data<double>()[i]);
  return out;
}

}  // namespace kilter
