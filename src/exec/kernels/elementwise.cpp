// Element-wise operators of two operands, in the types in which programs compute indices and conditions.
#include <functional>
#include <type_traits>

#include "exec/kernels/shapes.h"

namespace kilter {
namespace {

/// Returns the broadcast shape of two operands, or nullopt if there is none.
std::optional<Shape> broadcast(std::span<const int64_t> a, std::span<const int64_t> b) {
  if (a.size() < b.size()) std::swap(a, b);
  Shape shape(a.begin(), a.end());
  for (size_t d = 0; d < b.size(); ++d) {
    int64_t& extent = shape[a.size() - b.size() + d];
    if (extent == 1) {
      extent = b[d];
    } else if (b[d] != 1 && b[d] != extent) {
      return std::nullopt;
    }
  }
  return shape;
}

/// Returns the distance, in elements, between neighbours of an operand along each dimension of the broadcast shape.
Shape broadcast_steps(std::span<const int64_t> from, const Shape& to) {
  Shape steps(to.size(), 0);
  int64_t step = 1;
  for (size_t d = from.size(); d-- > 0;) {
    if (from[d] != 1) steps[to.size() - from.size() + d] = step;
    step *= from[d];
  }
  return steps;
}

template <class T, class R, class F>
void compute_row(const T* a, int64_t a_step, const T* b, int64_t b_step, int64_t count, R* out, F f) {
  if (a_step == 1 && b_step == 1) {
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<R>(f(a[i], b[i]));
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<R>(f(a[i * a_step], b[i * b_step]));
  }
}

template <class T, class R, class F>
void compute(KernelOperands in, const Shape& shape, R* out, F f) {
  const T* a = in[0].as<T>();
  const T* b = in[1].as<T>();
  const int64_t total = extent_product(shape, 0, std::ssize(shape));
  const bool whole_a = in[0].elems == total, whole_b = in[1].elems == total;
  if ((whole_a || in[0].elems == 1) && (whole_b || in[1].elems == 1))
    return compute_row(a, whole_a ? 1 : 0, b, whole_b ? 1 : 0, total, out, f);
  const Shape a_steps = broadcast_steps(in[0].shape, shape), b_steps = broadcast_steps(in[1].shape, shape);
  const size_t last = shape.size() - 1;
  Shape index(shape.size(), 0);
  for (int64_t done = 0; done < total; done += shape[last]) {
    int64_t a_at = 0, b_at = 0;
    for (size_t d = 0; d < last; ++d) a_at += index[d] * a_steps[d], b_at += index[d] * b_steps[d];
    compute_row(a + a_at, a_steps[last], b + b_at, b_steps[last], shape[last], out + done, f);
    for (size_t d = last; d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

/// Arithmetic on integers wraps.
template <class Operation>
struct Wrapping {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(Operation{}(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
    } else {
      return Operation{}(a, b);
    }
  }
};

bool takes_pair(KernelOperands in) {
  return in.size() == 2 && in[0].present && has_type(in, 1, in[0].type) && broadcast(in[0].shape, in[1].shape);
}

bool takes_numbers(const KernelCall&, KernelOperands in) {
  if (!takes_pair(in)) return false;
  return in[0].type == DType::f32 || in[0].type == DType::i32 || in[0].type == DType::i64;
}

bool takes_bools(const KernelCall&, KernelOperands in) { return takes_pair(in) && in[0].type == DType::boolean; }

template <class T, class R, class F>
bool run_as(KernelOperands in, KernelResults& results) {
  const Shape shape = *broadcast(in[0].shape, in[1].shape);
  compute<T, R>(in, shape, results.make<R>(0, shape), F{});
  return true;
}

template <class F>
bool arithmetic(const KernelCall&, KernelOperands in, KernelResults& results, ThreadPool*) {
  if (in[0].type == DType::f32) return run_as<float, float, F>(in, results);
  return in[0].type == DType::i32 ? run_as<int32_t, int32_t, F>(in, results) : run_as<int64_t, int64_t, F>(in, results);
}

template <class F>
bool comparison(const KernelCall&, KernelOperands in, KernelResults& results, ThreadPool*) {
  if (in[0].type == DType::f32) return run_as<float, bool, F>(in, results);
  return in[0].type == DType::i32 ? run_as<int32_t, bool, F>(in, results) : run_as<int64_t, bool, F>(in, results);
}

template <class F>
bool logic(const KernelCall&, KernelOperands in, KernelResults& results, ThreadPool*) {
  return run_as<bool, bool, F>(in, results);
}

}  // namespace

extern const RuntimeKernel add_kernel, sub_kernel, mul_kernel, equal_kernel, greater_kernel, greater_or_equal_kernel,
    less_kernel, less_or_equal_kernel, and_kernel, or_kernel;
const RuntimeKernel add_kernel{"Add", 7, "", takes_numbers, arithmetic<Wrapping<std::plus<>>>};
const RuntimeKernel sub_kernel{"Sub", 7, "", takes_numbers, arithmetic<Wrapping<std::minus<>>>};
const RuntimeKernel mul_kernel{"Mul", 7, "", takes_numbers, arithmetic<Wrapping<std::multiplies<>>>};
const RuntimeKernel equal_kernel{"Equal", 7, "", takes_numbers, comparison<std::equal_to<>>};
const RuntimeKernel greater_kernel{"Greater", 7, "", takes_numbers, comparison<std::greater<>>};
const RuntimeKernel greater_or_equal_kernel{"GreaterOrEqual", 12, "", takes_numbers, comparison<std::greater_equal<>>};
const RuntimeKernel less_kernel{"Less", 7, "", takes_numbers, comparison<std::less<>>};
const RuntimeKernel less_or_equal_kernel{"LessOrEqual", 12, "", takes_numbers, comparison<std::less_equal<>>};
const RuntimeKernel and_kernel{"And", 7, "", takes_bools, logic<std::logical_and<>>};
const RuntimeKernel or_kernel{"Or", 7, "", takes_bools, logic<std::logical_or<>>};

}  // namespace kilter
