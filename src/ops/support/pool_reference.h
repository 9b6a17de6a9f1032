// The windows used by the reference kernels of the pooling operators.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ops/op.h"
#include "ops/support/iterate.h"
#include "ops/support/overflow.h"
#include "ops/support/window.h"

namespace kilter {

/// Returns the output shape [N, C, out...] of pooling x.
inline Shape pooled_shape(const Shape& x, const Window& window) {
  Shape shape = {x[0], x[1]};
  shape.insert(shape.end(), window.out.begin(), window.out.end());
  return shape;
}

/// Calls f(output, inputs, covered) for every output position of one plane. `output` is the position. `inputs` are the
/// positions of the input elements under the window in row-major order, without padding. `covered` is the number of
/// taps inside the input or its declared padding, which is less than the kernel only if ceil_mode lets the last window
/// extend further.
void for_each_window(const Window& window,
                     const std::function<void(int64_t output, std::span<const int64_t> inputs, int64_t covered)>& f);

/// The most taps under which sums of 8-bit integers stay within the range of RoundedSum.
constexpr int64_t kMostTapsOfBytes = 1024;

/// The counts of an average pool for every position of a plane: f64[1, 1, out...], or scalars if all are equal.
struct WindowCounts {
  Tensor covered;  ///< the divisors of a mean that counts the declared padding
  Tensor divisor;  ///< the divisors of the node's own mean; 0 for a window without elements that count
};
WindowCounts window_counts(const Window& window, bool count_padding);

/// Computes y = finish(sum over the window of term(x), taps that count) for every output element, accumulating in
/// double. With `count_padding` the declared padding also counts as taps.
template <class Term, class Finish>
void pool_sums(ReferenceContext& ctx, const Window& window, bool count_padding, Term term, Finish finish) {
  const std::vector<double> x = load_doubles(ctx.in(0));
  std::vector<double> y(static_cast<size_t>(ctx.out().elems()));
  const int64_t planes = ctx.in(0).shape()[0] * ctx.in(0).shape()[1];
  for_each_window(window, [&](int64_t output, std::span<const int64_t> inputs, int64_t covered) {
    const int64_t count = count_padding ? covered : static_cast<int64_t>(inputs.size());
    for (int64_t p = 0; p < planes; ++p) {
      const double* plane = x.data() + p * window.in_elems();
      double sum = 0;
      for (const int64_t i : inputs) sum = in_range_of_sums(ctx.in(0).dtype(), sum + term(plane[i]));
      y[static_cast<size_t>(p * window.out_elems() + output)] = finish(sum, count);
    }
  });
  store_doubles(ctx.out(), y);
}

}  // namespace kilter
