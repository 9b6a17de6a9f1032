// Extents of matrix products, used by the shape rules, reference kernels and schedules of MatMul, Gemm and their
// quantised forms; and the product used by the reference kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/op.h"
#include "ops/support/iterate.h"

namespace kilter {

/// The extents of a [batch..., m, k] times b [batch..., k, n], with batches broadcast (numpy.matmul). An operand of
/// rank 1 counts as a row on the left and as a column on the right, and its dimension is missing from the output.
struct MatMulShape {
  int64_t m = 1;
  int64_t n = 1;
  int64_t k = 1;
  Shape batch;            ///< broadcast
  Shape a_batch_strides;  ///< per batch dimension, in elements of a (0 where a repeats)
  Shape b_batch_strides;
  Shape out;

  int64_t batches() const { return elems(batch); }
  /// Counts one multiply-add as 2 operations.
  int64_t flops() const { return 2 * batches() * m * n * k; }
};

/// Throws bad_model if the shapes do not fit.
MatMulShape matmul_shape(const Node& node, const Shape& a, const Shape& b);

/// The extents of Gemm: a [m, k] or, with trans_a, [k, m]; b [k, n] or [n, k].
struct GemmShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool trans_a = false;
  bool trans_b = false;
};
GemmShape gemm_shape(const Node& node, const Shape& a, const Shape& b);

/// Computes sum[j] = sum over p of a[p * a_step] * b[p, j] for a dense row-major b [k, n], in the order of p.
template <class Acc>
void row_times_matrix(const Acc* a, int64_t a_step, const Acc* b, int64_t k, int64_t n, Acc* sum) {
  std::fill(sum, sum + n, Acc{});
  for (int64_t p = 0; p < k; ++p) {
    const Acc left = a[p * a_step];
    const Acc* right = b + p * n;
    for (int64_t j = 0; j < n; ++j) sum[j] += left * right[j];
  }
}

/// Calls emit(batch, row, sums) for every row of the product. Batches are numbered in row-major order.
template <class Acc, class Emit>
void matmul_rows(const MatMulShape& shape, const Acc* a, const Acc* b, Emit emit) {
  std::vector<Acc> sums(static_cast<size_t>(shape.n));
  int64_t batch = 0;
  for_each_offset<2>(shape.batch, {shape.a_batch_strides, shape.b_batch_strides},
                     [&](const std::array<int64_t, 2>& at) {
                       for (int64_t i = 0; i < shape.m; ++i) {
                         row_times_matrix(a + at[0] + i * shape.k, 1, b + at[1], shape.k, shape.n, sums.data());
                         emit(batch, i, std::span<const Acc>(sums));
                       }
                       ++batch;
                     });
}

}  // namespace kilter
