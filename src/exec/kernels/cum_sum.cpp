// CumSum. Sums of floats are accumulated in double, like those of the reference kernel; several rows run at once, so
// that their chains of additions overlap.
#include <algorithm>
#include <array>

#include "exec/kernels/parallel.h"
#include "exec/kernels/shapes.h"
#include "exec/kernels/wide.h"

namespace kilter {
namespace {

/// The type of sums: double for floats, unsigned 64 bits for integers, which wrap.
template <class T>
using Sum = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;

constexpr int64_t kColumns = 1024;  ///< columns that are summed together

struct Rules {
  AxisView view;
  bool exclusive = false, reverse = false;
  int64_t position(int64_t k) const { return reverse ? view.extent - 1 - k : k; }
};

/// Adds kRows rows of kBlock neighbouring columns to their sums, and writes the sums after (or before) each row.
template <size_t kRows, size_t kBlock, bool kExclusive, class T>
KILTER_WIDE inline void sum_block(const T* x, T* y, int64_t step, Sum<T>* sums) {
  std::array<Sum<T>, kBlock> total;
  for (size_t c = 0; c < kBlock; ++c) total[c] = sums[c];
  for (size_t r = 0; r < kRows; ++r, x += step, y += step) {
    std::array<Sum<T>, kBlock> value;
    for (size_t c = 0; c < kBlock; ++c) value[c] = static_cast<Sum<T>>(x[c]);
    for (size_t c = 0; c < kBlock; ++c) {
      if (kExclusive) y[c] = static_cast<T>(total[c]);
      total[c] += value[c];
      if (!kExclusive) y[c] = static_cast<T>(total[c]);
    }
  }
  for (size_t c = 0; c < kBlock; ++c) sums[c] = total[c];
}

template <size_t kRows, bool kExclusive, class T>
KILTER_WIDE inline void sum_rows_of_columns(const T* x, T* y, int64_t step, int64_t count, Sum<T>* sums) {
  constexpr int64_t kBlock = 16;
  int64_t c = 0;
  for (; c + kBlock <= count; c += kBlock)
    sum_block<kRows, static_cast<size_t>(kBlock), kExclusive>(x + c, y + c, step, sums + c);
  for (; c < count; ++c) sum_block<kRows, 1, kExclusive>(x + c, y + c, step, sums + c);
}

/// Neighbouring columns of [extent, inner].
template <bool kExclusive, class T>
void sum_columns(const Rules& rules, const T* x, T* y, int64_t count) {
  constexpr int64_t kRows = 4;
  std::array<Sum<T>, kColumns> total{};
  const int64_t step = rules.reverse ? -rules.view.inner : rules.view.inner;
  run_wide([&]() KILTER_WIDE {
    for (int64_t k = 0; k < rules.view.extent;) {
      const int64_t at = rules.position(k) * rules.view.inner;
      const bool together = k + kRows <= rules.view.extent;
      together ? sum_rows_of_columns<kRows, kExclusive>(x + at, y + at, step, count, total.data())
               : sum_rows_of_columns<1, kExclusive>(x + at, y + at, step, count, total.data());
      k += together ? kRows : 1;
    }
  });
}

/// kRows rows whose elements are next to each other.
template <size_t kRows, class T>
void sum_rows(const Rules& rules, const T* x, T* y) {
  const int64_t n = rules.view.extent;
  std::array<Sum<T>, kRows> total{};
  for (int64_t k = 0; k < n; ++k) {
    const int64_t at = rules.position(k);
    for (size_t r = 0; r < kRows; ++r) {
      const Sum<T> before = total[r];
      total[r] += static_cast<Sum<T>>(x[static_cast<int64_t>(r) * n + at]);
      y[static_cast<int64_t>(r) * n + at] = static_cast<T>(rules.exclusive ? before : total[r]);
    }
  }
}

template <class T>
void sum_rows_of(const Rules& rules, const T* x, T* y, int64_t begin, int64_t end) {
  constexpr int64_t kTogether = 8;
  const int64_t n = rules.view.extent;
  int64_t r = begin;
  for (; r + kTogether <= end; r += kTogether) sum_rows<kTogether>(rules, x + r * n, y + r * n);
  for (; r < end; ++r) sum_rows<1>(rules, x + r * n, y + r * n);
}

template <class T>
void sum_columns_of(const Rules& rules, const T* x, T* y, int64_t begin, int64_t end) {
  const int64_t inner = rules.view.inner;
  for (int64_t c = begin; c < end;) {
    const int64_t at = c / inner * rules.view.extent * inner + c % inner;
    const int64_t count = std::min({kColumns, end - c, inner - c % inner});
    rules.exclusive ? sum_columns<true>(rules, x + at, y + at, count)
                    : sum_columns<false>(rules, x + at, y + at, count);
    c += count;
  }
}

bool takes(const KernelCall&, KernelOperands in) {
  if (in.size() < 2 || !in[0].present || !in[1].present || in[0].rank() == 0 || in[1].elems != 1) return false;
  const bool number = in[0].type == DType::f32 || in[0].type == DType::f64 || is_integer(in[0].type);
  return number && (in[1].type == DType::i32 || in[1].type == DType::i64);
}

bool run(const KernelCall& call, KernelOperands in, KernelResults& results, ThreadPool* pool) {
  const int64_t given = in[1].type == DType::i32 ? *in[1].as<int32_t>() : *in[1].as<int64_t>();
  const auto axis = legal_axis(given, in[0].rank());
  if (!axis) return false;
  const Rules rules{along_axis(in[0].shape, *axis), call.int_attr("exclusive", 0) != 0,
                    call.int_attr("reverse", 0) != 0};
  std::byte* out = results.make(0, in[0].type, in[0].shape);
  if (in[0].elems == 0) return true;
  visit_dtype(in[0].type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
      const T* x = in[0].as<T>();
      T* y = reinterpret_cast<T*>(out);
      parallel_ranges(
          pool, rules.view.outer * rules.view.inner, 2 * rules.view.extent, [&](int64_t begin, int64_t end) {
            rules.view.inner == 1 ? sum_rows_of(rules, x, y, begin, end) : sum_columns_of(rules, x, y, begin, end);
          });
    }
  });
  return true;
}

}  // namespace

extern const RuntimeKernel cum_sum_kernel;
const RuntimeKernel cum_sum_kernel{"CumSum", 11, "", takes, run};

}  // namespace kilter
