#include "packing/gather.h"

#include <algorithm>
#include <array>

#include "base/align.h"
#include "base/error.h"

namespace kilter {
namespace {

constexpr size_t kMostAxes = 8, kMostLoops = 12;
constexpr int64_t kMostElems = int64_t{1} << 40;
constexpr int64_t kMostReach = int64_t{1} << 56;  ///< elements, along each axis, so that sums do not overflow

struct Range {
  int64_t first, last;  ///< [first, last)
};

/// The iterations of a loop in which the index, which starts at `index`, is inside its axis.
Range inside(const Gather::Loop& loop, int64_t extent, int64_t index) {
  if (loop.step == 0) return index >= 0 && index < extent ? Range{0, loop.count} : Range{0, 0};
  const int64_t first = index < 0 ? ceil_div(-index, loop.step) : 0;
  const int64_t last = index < extent ? ceil_div(extent - index, loop.step) : 0;
  return {first, std::max(first, std::min(last, loop.count))};
}

template <class From, class To>
class Packer {
 public:
  Packer(const Gather& gather, const From* source) : gather_(gather), source_(source) {
    int64_t elems = 1;
    std::array<bool, kMostAxes> moved{};
    for (size_t l = gather.loops.size(); l-- > 0;) {
      elems_[l] = elems;
      elems *= gather.loops[l].count;
      const auto axis = static_cast<size_t>(gather.loops[l].axis);
      last_[l] = !moved[axis];
      moved[axis] = true;
    }
    for (size_t a = 0; a < gather.axes.size(); ++a) {
      const Gather::Axis& axis = gather.axes[a];
      index_[a] = axis.first;
      if (moved[a]) continue;
      start_ += axis.first * axis.stride;
      empty_ = empty_ || axis.first < 0 || axis.first >= axis.extent;
    }
  }

  void run(To* to) {
    if (!empty_) loop(0, start_, to);
  }

 private:
  /// Packs what the loops from `l` on count. `from`: the sum of the indices that no later loop moves, times strides.
  void loop(size_t l, int64_t from, To* to) {
    const size_t left = gather_.loops.size() - l;
    if (left == 2 && gather_.loops[l].axis != gather_.loops[l + 1].axis) return last_two(l, from, to);
    const Gather::Loop& at = gather_.loops[l];
    const auto axis = static_cast<size_t>(at.axis);
    const Gather::Axis& a = gather_.axes[axis];
    if (left == 1) {
      const Range in = inside(at, a.extent, index_[axis]);
      return copy(to, from + index_[axis] * a.stride, in, at.step * a.stride, 1);
    }
    const int64_t start = index_[axis];
    // Only once the last loop along an axis has moved its index is it known whether that is inside.
    const Range in = last_[l] ? inside(at, a.extent, start) : Range{0, at.count};
    for (int64_t i = in.first; i < in.last; ++i) {
      index_[axis] = start + i * at.step;
      loop(l + 1, last_[l] ? from + index_[axis] * a.stride : from, to + i * elems_[l]);
    }
    index_[axis] = start;
  }

  void last_two(size_t l, int64_t from, To* to) {
    const Gather::Loop &outer = gather_.loops[l], &inner = gather_.loops[l + 1];
    const auto x = static_cast<size_t>(outer.axis), y = static_cast<size_t>(inner.axis);
    const Gather::Axis &a = gather_.axes[x], &b = gather_.axes[y];
    const Range rows = inside(outer, a.extent, index_[x]), columns = inside(inner, b.extent, index_[y]);
    const int64_t row = outer.step * a.stride, column = inner.step * b.stride;
    from += index_[x] * a.stride + index_[y] * b.stride;
    // The longer of the two loops becomes the inner one, because groups have only two or four elements.
    if (columns.last - columns.first >= rows.last - rows.first) {
      for (int64_t i = rows.first; i < rows.last; ++i) copy(to + i * inner.count, from + i * row, columns, column, 1);
    } else {
      for (int64_t i = columns.first; i < columns.last; ++i) copy(to + i, from + i * column, rows, row, inner.count);
    }
  }

  void copy(To* to, int64_t from, Range range, int64_t step, int64_t to_step) const {
    if (step == 1 && to_step == 1) {
      for (int64_t i = range.first; i < range.last; ++i) to[i] = To(source_[from + i]);
    } else {
      for (int64_t i = range.first; i < range.last; ++i) to[i * to_step] = To(source_[from + i * step]);
    }
  }

  const Gather& gather_;
  const From* source_;
  std::array<int64_t, kMostLoops> elems_{};  ///< of the packed constant, in one iteration of each loop
  std::array<bool, kMostLoops> last_{};      ///< whether no later loop moves along the same axis
  std::array<int64_t, kMostAxes> index_{};
  int64_t start_ = 0;   ///< of the axes that no loop moves
  bool empty_ = false;  ///< whether one of these is outside, so that all elements are zero
};

template <class From, class To>
void pack_as(const Gather& gather, const std::byte* source, std::byte* packed) {
  if (gather.loops.empty()) return;
  Packer<From, To>(gather, reinterpret_cast<const From*>(source)).run(reinterpret_cast<To*>(packed));
}

/// Elements of the same size, whatever they are.
void pack_same(const Gather& gather, int64_t size, const std::byte* source, std::byte* packed) {
  switch (size) {
    case 1:
      return pack_as<uint8_t, uint8_t>(gather, source, packed);
    case 2:
      return pack_as<uint16_t, uint16_t>(gather, source, packed);
    case 4:
      return pack_as<uint32_t, uint32_t>(gather, source, packed);
    default:
      return pack_as<uint64_t, uint64_t>(gather, source, packed);
  }
}

bool is_size(int64_t value) { return value >= 0 && value <= kMostElems; }

/// Whether the loops move the index along an axis so far that its element would overflow.
bool reaches_too_far(const Gather& gather, size_t axis) {
  const Gather::Axis& a = gather.axes[axis];
  int64_t reach = std::abs(a.first);
  for (const Gather::Loop& loop : gather.loops) {
    if (loop.axis == static_cast<int32_t>(axis)) reach += loop.count * loop.step;
  }
  return reach > kMostReach / std::max<int64_t>(a.stride, 1);
}

}  // namespace

int64_t Gather::elems() const {
  int64_t all = 1;
  for (const Loop& loop : loops) all *= loop.count;
  return all;
}

std::optional<std::string> fault_of(const Gather& gather, int64_t source_elems) {
  if (gather.axes.size() > kMostAxes || gather.loops.size() > kMostLoops || gather.loops.empty())
    return fmt::format("{} axes and {} loops; expected at most {} and 1 to {}", gather.axes.size(), gather.loops.size(),
                       kMostAxes, kMostLoops);
  int64_t all = 1;
  for (const Gather::Loop& loop : gather.loops) {
    const bool known = loop.axis >= 0 && loop.axis < std::ssize(gather.axes);
    if (!known || loop.count < 1 || loop.count > kMostElems / all || !is_size(loop.step) ||
        (loop.step > 0 && loop.count > kMostElems / loop.step))
      return fmt::format("a loop of {} along axis {} of {} by {}", loop.count, loop.axis, gather.axes.size(),
                         loop.step);
    all *= loop.count;
  }
  int64_t last = 0;  // the largest element that the axes reach
  for (size_t i = 0; i < gather.axes.size(); ++i) {
    const Gather::Axis& a = gather.axes[i];
    const bool sizes = a.extent >= 1 && is_size(a.extent) && is_size(a.stride) && a.first >= -kMostElems &&
                       a.first <= kMostElems && !reaches_too_far(gather, i);
    if (!sizes || (a.stride > 0 && a.extent - 1 > (source_elems - 1 - last) / a.stride))
      return fmt::format("an axis of extent {} and stride {} from {} on, in a source of {} elements", a.extent,
                         a.stride, a.first, source_elems);
    last += (a.extent - 1) * a.stride;
  }
  if (last >= source_elems) return fmt::format("element {} of a source of {}", last, source_elems);
  return std::nullopt;
}

void pack(const Gather& gather, DType from, const std::byte* source, DType to, std::byte* packed) {
  if (from == to) return pack_same(gather, size_bytes(to), source, packed);
  require(from == DType::f32, "constants of type {} are packed as {}", name(from), name(to));
  switch (to) {
    case DType::bf16:
      return pack_as<float, BFloat16>(gather, source, packed);
    case DType::f16:
      return pack_as<float, Half>(gather, source, packed);
    case DType::i8:
      return pack_as<float, int8_t>(gather, source, packed);
    default:
      fail(ErrorKind::internal, "constants of type f32 are packed as {}", name(to));
  }
}

}  // namespace kilter
