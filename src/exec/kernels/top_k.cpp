// TopK: sorts only the elements that may be among the first k.
#include <algorithm>
#include <limits>

#include "exec/kernels/order_key.h"
#include "exec/kernels/parallel.h"
#include "exec/kernels/shapes.h"
#include "exec/kernels/wide.h"

namespace kilter {
namespace {

/// An element of a row. Ranks compare in the order of the elements: by key, then by index.
template <class Key>
struct Rank {
  Rank() = default;
  Rank(Key of_key, uint32_t at) : key(of_key), index(at) {}
  Key key;
  uint32_t index;
  bool operator<(const Rank& other) const { return key != other.key ? key < other.key : index < other.index; }
};
template <>
struct Rank<uint32_t> {
  uint64_t both;
  Rank() = default;
  Rank(uint32_t key, uint32_t index) : both(uint64_t{key} << 32 | index) {}
  bool operator<(const Rank& other) const { return both < other.both; }
};
uint32_t index_of(const Rank<uint32_t>& rank) { return static_cast<uint32_t>(rank.both); }
uint32_t index_of(const Rank<uint64_t>& rank) { return rank.index; }

/// Finds the first k > 0 elements of rows in sorted order.
template <class T>
class Selection {
 public:
  Selection(size_t k, bool largest) : k_(k), flip_(largest ? static_cast<Key>(~Key{0}) : Key{0}) {}

  /// Returns the ranks of the first k of n elements, sorted.
  std::span<const Rank<OrderKey<T>>> of(const T* row, size_t n) {
    found_.clear();
    if (k_ <= n / 64) {
      find_candidates<32>(row, n);
    } else if (k_ <= n / 16) {
      find_candidates<8>(row, n);
    } else {
      for (size_t i = 0; i < n; ++i) found_.emplace_back(key(row[i]), static_cast<uint32_t>(i));
    }
    if (found_.size() > k_) {
      std::nth_element(found_.begin(), found_.begin() + static_cast<std::ptrdiff_t>(k_), found_.end());
      found_.resize(k_);
    }
    std::sort(found_.begin(), found_.end());
    return found_;
  }

 private:
  using Key = OrderKey<T>;
  KILTER_WIDE Key key(T value) const { return order_key(value) ^ flip_; }

  /// Finds the elements that do not exceed a limit, the k-th smallest of the blocks' smallest keys. There are at least
  /// k such elements.
  template <size_t kBlock>
  void find_candidates(const T* row, size_t n) {
    const size_t blocks = n / kBlock;
    least_.resize(blocks);
    run_wide([&]() KILTER_WIDE {
      for (size_t b = 0; b < blocks; ++b) {
        Key least = std::numeric_limits<Key>::max();
        for (size_t j = 0; j < kBlock; ++j) least = std::min(least, key(row[b * kBlock + j]));
        least_[b] = least;
      }
    });
    sorted_ = least_;
    const auto kth = sorted_.begin() + static_cast<std::ptrdiff_t>(k_ - 1);
    std::nth_element(sorted_.begin(), kth, sorted_.end());
    for (size_t b = 0; b < blocks; ++b) {
      if (least_[b] <= *kth) add_up_to(*kth, row, b * kBlock, (b + 1) * kBlock);
    }
    add_up_to(*kth, row, blocks * kBlock, n);
  }

  void add_up_to(Key limit, const T* row, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (const Key k = key(row[i]); k <= limit) found_.emplace_back(k, static_cast<uint32_t>(i));
    }
  }

  size_t k_;
  Key flip_;  ///< all bits if the largest elements come first
  std::vector<Rank<Key>> found_;
  std::vector<Key> least_, sorted_;  ///< of blocks
};

struct Problem {
  AxisView view;
  size_t k = 0;
  bool largest = true;
};

/// Copies `rows` rows whose elements are `stride` apart and that are next to each other.
template <class T>
void copy_rows(const T* x, int64_t rows, int64_t extent, int64_t stride, T* to) {
  for (int64_t i = 0; i < extent; ++i) {
    for (int64_t r = 0; r < rows; ++r) to[r * extent + i] = x[i * stride + r];
  }
}

template <class T>
void select_rows(const Problem& p, const T* x, T* values, int64_t* indices, ThreadPool* pool) {
  const int64_t n = p.view.extent, inner = p.view.inner;
  const auto k = static_cast<int64_t>(p.k);
  parallel_ranges(pool, p.view.outer * inner, 2 * n, [&](int64_t begin, int64_t end) {
    constexpr int64_t kTogether = 16;
    Selection<T> selection(p.k, p.largest);
    std::vector<T> copy(static_cast<size_t>(inner == 1 ? 0 : kTogether * n));
    for (int64_t r = begin; r < end;) {
      const int64_t rows = inner == 1 ? 1 : std::min({kTogether, end - r, inner - r % inner});
      const T* row = x + r / inner * n * inner + r % inner;
      if (inner != 1) {
        copy_rows(row, rows, n, inner, copy.data());
        row = copy.data();
      }
      for (const int64_t last = r + rows; r < last; ++r, row += n) {
        int64_t at = r / inner * k * inner + r % inner;
        for (const auto& rank : selection.of(row, static_cast<size_t>(n))) {
          const uint32_t index = index_of(rank);
          if (values != nullptr) values[at] = row[index];
          if (indices != nullptr) indices[at] = index;
          at += inner;
        }
      }
    }
  });
}

bool takes(const KernelCall& call, KernelOperands in) {
  if (in.empty() || !in[0].present || !is_arithmetic(in[0].type) || in[0].type == DType::boolean) return false;
  const auto axis = legal_axis(call.int_attr("axis", -1), in[0].rank());
  if (!axis || in[0].shape[static_cast<size_t>(*axis)] > int64_t{std::numeric_limits<uint32_t>::max()}) return false;
  if (left_out(in, 1)) return call.has_attr("k");
  return in[1].type == DType::i64 && in[1].elems == 1 && in[1].rank() <= 1;
}

bool run(const KernelCall& call, KernelOperands in, KernelResults& results, ThreadPool* pool) {
  const int64_t axis = *legal_axis(call.int_attr("axis", -1), in[0].rank());
  const int64_t k = left_out(in, 1) ? call.int_attr("k", 0) : *in[1].as<int64_t>();
  Shape shape(in[0].shape.begin(), in[0].shape.end());
  int64_t& extent = shape[static_cast<size_t>(axis)];
  if (k < 0 || k > extent) return false;
  const Problem problem{along_axis(in[0].shape, axis), static_cast<size_t>(k), call.int_attr("largest", 1) != 0};
  extent = k;
  std::byte* values = results.wants(0) ? results.make(0, in[0].type, shape) : nullptr;
  auto* indices = results.wants(1) ? results.make<int64_t>(1, shape) : nullptr;
  if (k == 0 || in[0].elems == 0) return true;
  visit_dtype(in[0].type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, bool>)
      select_rows<T>(problem, in[0].as<T>(), reinterpret_cast<T*>(values), indices, pool);
  });
  return true;
}

}  // namespace

extern const RuntimeKernel top_k_kernel;
const RuntimeKernel top_k_kernel{"TopK", 1, "", takes, run};

}  // namespace kilter
