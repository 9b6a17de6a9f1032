// NonZero: counts, then writes the coordinates row by row.
#include <algorithm>

#include "exec/kernels/shapes.h"

namespace kilter {
namespace {

template <class T>
bool set(T value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return static_cast<float>(value) != 0;
  } else {
    return value != T{0};
  }
}

/// Writes the coordinates of the elements that are not 0: out[d * count + k] for dimension d of the k-th of them.
template <class T>
void write_positions(const T* x, std::span<const int64_t> shape, int64_t count, int64_t* out) {
  const size_t rank = shape.size();
  const int64_t row = rank == 0 ? 1 : shape[rank - 1];
  const int64_t rows = row == 0 ? 0 : extent_product(shape, 0, std::max<int64_t>(std::ssize(shape) - 1, 0));
  std::vector<int64_t> index(rank, 0);
  int64_t next = 0;
  for (int64_t r = 0; r < rows; ++r, x += row) {
    const int64_t first = next;
    for (int64_t i = 0; i < row; ++i) {
      if (!set(x[i])) continue;
      if (rank > 0) out[static_cast<int64_t>(rank - 1) * count + next] = i;
      ++next;
    }
    for (size_t d = 0; d + 1 < rank; ++d) {
      int64_t* to = out + static_cast<int64_t>(d) * count;
      std::fill(to + first, to + next, index[d]);
    }
    for (size_t d = rank < 2 ? 0 : rank - 1; d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

bool takes(const KernelCall&, KernelOperands in) { return !in.empty() && in[0].present && is_arithmetic(in[0].type); }

bool run(const KernelCall&, KernelOperands in, KernelResults& results, ThreadPool*) {
  visit_dtype(in[0].type, [&](auto zero) {
    using T = decltype(zero);
    const T* x = in[0].as<T>();
    int64_t count = 0;
    for (int64_t i = 0; i < in[0].elems; ++i) count += static_cast<int64_t>(set(x[i]));
    const int64_t shape[] = {in[0].rank(), count};
    write_positions(x, in[0].shape, count, results.make<int64_t>(0, shape));
  });
  return true;
}

}  // namespace

extern const RuntimeKernel non_zero_kernel;
const RuntimeKernel non_zero_kernel{"NonZero", 9, "", takes, run};

}  // namespace kilter
