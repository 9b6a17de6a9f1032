// Shape rules and reference kernels of operators that compute every output element from the input elements at the same
// (numpy-broadcast) index. Half and BFloat16 elements are computed in float and rounded once.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "base/convert.h"
#include "ops/op.h"
#include "ops/support/builder.h"
#include "ops/support/iterate.h"

namespace kilter {

/// A list of element types that a kernel is instantiated for. The kernels below are compiled once for each, so list
/// only the types that the operator allows.
template <class... T>
struct Types {};
using Floats = Types<float, double, Half, BFloat16>;
using SignedInts = Types<int8_t, int16_t, int32_t, int64_t>;
using UnsignedInts = Types<uint8_t, uint16_t, uint32_t, uint64_t>;
using Ints = Types<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
using SignedNumbers = Types<float, double, Half, BFloat16, int8_t, int16_t, int32_t, int64_t>;
using Numbers =
    Types<float, double, Half, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
using NumbersAndBool = Types<float, double, Half, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                             uint32_t, uint64_t, bool>;
using Bool = Types<bool>;

/// The type used for arithmetic on elements of type T.
template <class T>
struct ComputeOf {
  using type = T;
};
template <>
struct ComputeOf<Half> {
  using type = float;
};
template <>
struct ComputeOf<BFloat16> {
  using type = float;
};
template <class T>
using Compute = typename ComputeOf<T>::type;

/// Convert an element to its compute type, and a result back to the element type with rounding (in a conversion to an
/// integer type, integers wrap and floats saturate).
template <class T>
Compute<T> widen(T value) {
  return static_cast<Compute<T>>(value);
}
template <class T, class R>
T narrow(R result) {
  if constexpr (std::is_integral_v<Compute<T>> && std::is_floating_point_v<R>) {
    return convert<T>(result);
  } else {
    return static_cast<T>(static_cast<Compute<T>>(result));
  }
}

/// Throws unsupported: "Relu 'name': element type str is not supported; legal values are f32, f64, ...".
[[noreturn]] void unsupported_dtype(const Node& node, DType got, std::span<const DType> legal);
/// Throws bad_model: "Relu 'name': input 0 has element type i32, expected one of f32, ...".
[[noreturn]] void illegal_dtype(const Node& node, size_t input, DType got, std::span<const DType> legal);

/// Calls f.template operator()<T>() for the member of the list that `type` names. Throws unsupported if there is none.
template <class F, class... T>
void visit_types(Types<T...>, const Node& node, DType type, F&& f) {
  const bool found = ((type == DTypeOf<T>::value ? (f.template operator()<T>(), true) : false) || ...);
  if (found) return;
  static constexpr std::array<DType, sizeof...(T)> kLegal = {DTypeOf<T>::value...};
  unsupported_dtype(node, type, kLegal);
}

/// Throws bad_model if input `i` has an element type outside the list.
template <class... T>
void check_types(Types<T...>, const InferContext& ctx, size_t i) {
  if (((ctx.dtype(i) == DTypeOf<T>::value) || ...)) return;
  static constexpr std::array<DType, sizeof...(T)> kLegal = {DTypeOf<T>::value...};
  illegal_dtype(ctx.node, i, ctx.dtype(i), kLegal);
}

// ---- Shape and type rules ----

/// Returns the broadcast shape of all present inputs. Throws bad_model naming the shapes if they do not fit.
Shape broadcast_inputs(const InferContext& ctx);
/// Throws bad_model unless all present inputs have the element type of input 0.
void check_same_dtype(const InferContext& ctx);

/// Output 0 has the type and shape of input 0.
void infer_same(InferContext& ctx);
/// Output 0 has the shape of input 0 and boolean elements.
void infer_predicate(InferContext& ctx);
/// All inputs have one element type. Output 0 has this type and the broadcast shape.
void infer_broadcast(InferContext& ctx);
/// Like infer_broadcast, with boolean elements in the output.
void infer_compare(InferContext& ctx);

/// The same rules for a restricted list of element types, e.g. `.infer = infer_same_of<Floats>`.
template <class List>
void infer_same_of(InferContext& ctx) {
  check_types(List{}, ctx, 0);
  infer_same(ctx);
}
template <class List>
void infer_broadcast_of(InferContext& ctx) {
  check_types(List{}, ctx, 0);
  infer_broadcast(ctx);
}
template <class List>
void infer_compare_of(InferContext& ctx) {
  check_types(List{}, ctx, 0);
  infer_compare(ctx);
}

// ---- Reference kernels ----
// `f` takes elements in their compute type (float for Half and BFloat16, T itself otherwise, so use a generic lambda)
// and returns anything that converts to it.

/// Computes out = f(in 0). The output has the same element type and shape.
template <class List, class F>
void reference_unary(ReferenceContext& ctx, F f) {
  visit_types(List{}, ctx.node, ctx.in(0).dtype(), [&]<class T>() {
    const T* in = ctx.in(0).data<T>();
    T* out = ctx.out().data<T>();
    const int64_t count = ctx.out().elems();
    for (int64_t i = 0; i < count; ++i) out[i] = narrow<T>(f(widen(in[i])));
  });
}

/// Computes out = f(in 0). The output is boolean.
template <class List, class F>
void reference_predicate(ReferenceContext& ctx, F f) {
  visit_types(List{}, ctx.node, ctx.in(0).dtype(), [&]<class T>() {
    const T* in = ctx.in(0).data<T>();
    bool* out = ctx.out().data<bool>();
    const int64_t count = ctx.out().elems();
    for (int64_t i = 0; i < count; ++i) out[i] = f(widen(in[i]));
  });
}

/// Computes out[i] = f(a[i], b[i]), where A and B are the element types of the operands and R is that of the output.
/// Broadcasts.
template <class A, class B, class R, class F>
void broadcast_binary(const Tensor& a, const Tensor& b, const Tensor& out, F f) {
  const A* x = a.data<A>();
  const B* y = b.data<B>();
  R* z = out.data<R>();
  const std::array<Shape, 2> strides = {broadcast_strides(a.shape(), out.shape()),
                                        broadcast_strides(b.shape(), out.shape())};
  int64_t i = 0;
  for_each_offset<2>(out.shape(), strides, [&](const std::array<int64_t, 2>& at) {
    z[i++] = narrow<R>(f(widen(x[at[0]]), widen(y[at[1]])));
  });
}

/// Computes out = f(in 0, in 1), all of one element type. Broadcasts.
template <class List, class F>
void reference_binary(ReferenceContext& ctx, F f) {
  visit_types(List{}, ctx.node, ctx.in(0).dtype(),
              [&]<class T>() { broadcast_binary<T, T, T>(ctx.in(0), ctx.in(1), ctx.out(), f); });
}

/// Computes out = f(in 0, in 1), with operands of one element type and boolean output. Broadcasts.
template <class List, class F>
void reference_compare(ReferenceContext& ctx, F f) {
  visit_types(List{}, ctx.node, ctx.in(0).dtype(),
              [&]<class T>() { broadcast_binary<T, T, bool>(ctx.in(0), ctx.in(1), ctx.out(), f); });
}

/// Computes out[i] = f(a[i], b[i], c[i]) with element types A, B, C and R. Broadcasts.
template <class A, class B, class C, class R, class F>
void broadcast_ternary(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& out, F f) {
  const A* x = a.data<A>();
  const B* y = b.data<B>();
  const C* z = c.data<C>();
  R* result = out.data<R>();
  const std::array<Shape, 3> strides = {broadcast_strides(a.shape(), out.shape()),
                                        broadcast_strides(b.shape(), out.shape()),
                                        broadcast_strides(c.shape(), out.shape())};
  int64_t i = 0;
  for_each_offset<3>(out.shape(), strides, [&](const std::array<int64_t, 3>& at) {
    result[i++] = narrow<R>(f(widen(x[at[0]]), widen(y[at[1]]), widen(z[at[2]])));
  });
}

/// Computes out = f(in 0, in 1, in 2), all of one element type. Broadcasts.
template <class List, class F>
void reference_ternary(ReferenceContext& ctx, F f) {
  visit_types(List{}, ctx.node, ctx.in(0).dtype(),
              [&]<class T>() { broadcast_ternary<T, T, T, T>(ctx.in(0), ctx.in(1), ctx.in(2), ctx.out(), f); });
}

/// Computes out = finish(f(... f(f(in 0, in 1), in 2) ..., in n-1), n), all of one element type, broadcasting. Used for
/// Max, Min, Sum and Mean. The running value stays in the compute type.
template <class List, class F, class Finish>
void reference_variadic(ReferenceContext& ctx, F f, Finish finish) {
  visit_types(List{}, ctx.node, ctx.in(0).dtype(), [&]<class T>() {
    const Shape& shape = ctx.out().shape();
    std::vector<Compute<T>> total(static_cast<size_t>(ctx.out().elems()));
    for (size_t k = 0; k < ctx.inputs.size(); ++k) {
      const T* in = ctx.in(k).data<T>();
      size_t i = 0;
      for_each_offset<1>(shape, {broadcast_strides(ctx.in(k).shape(), shape)}, [&](const std::array<int64_t, 1>& at) {
        const Compute<T> x = widen(in[at[0]]);
        total[i] = k == 0 ? x : static_cast<Compute<T>>(f(total[i], x));
        ++i;
      });
    }
    const auto n = static_cast<int64_t>(ctx.inputs.size());
    for (size_t i = 0; i < total.size(); ++i) {
      ctx.out().data<T>()[i] = narrow<T>(finish(static_cast<Compute<T>>(total[i]), n));
    }
  });
}
template <class List, class F>
void reference_variadic(ReferenceContext& ctx, F f) {
  reference_variadic<List>(ctx, f, [](auto x, int64_t) { return x; });
}

// ---- Arithmetic that is defined for every value ----
// Integers wrap (two's complement); floats follow IEEE 754.

template <class T>
T wrap_add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}
template <class T>
T wrap_sub(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  } else {
    return a - b;
  }
}
template <class T>
T wrap_mul(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}
template <class T>
T wrap_neg(T a) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(a));
  } else {
    return -a;
  }
}

}  // namespace kilter
