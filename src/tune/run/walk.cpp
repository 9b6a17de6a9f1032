#include "tune/run/walk.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace kilter::tune {
namespace {

/// Returns the offset of a channel in elements.
int64_t channel_offset(const ValueLayout& v, int64_t channel) {
  if (v.block == 1) return channel * v.strides[1];
  return channel / v.block * v.strides[1] + channel % v.block * v.strides.back();
}

bool larger_step(const ElementWalk::Loop& x, const ElementWalk::Loop& y) {
  const int64_t ax = std::abs(x.step_a), ay = std::abs(y.step_a);
  return ax != ay ? ax > ay : std::abs(x.step_b) > std::abs(y.step_b);
}

/// Sorts loops by stride and joins loops that are contiguous in both layouts.
void finish(ElementWalk& walk) {
  std::erase_if(walk.loops, [](const ElementWalk::Loop& l) { return l.count == 1; });
  std::stable_sort(walk.loops.begin(), walk.loops.end(), larger_step);
  std::vector<ElementWalk::Loop> joined;
  for (size_t i = walk.loops.size(); i-- > 0;) {
    const ElementWalk::Loop& loop = walk.loops[i];
    if (!joined.empty()) {
      ElementWalk::Loop& inner = joined.back();
      if (loop.step_a == inner.count * inner.step_a && loop.step_b == inner.count * inner.step_b) {
        inner.count *= loop.count;
        continue;
      }
    }
    joined.push_back(loop);
  }
  if (joined.empty()) joined.push_back({1, 1, 1});
  walk.loops.assign(joined.rbegin(), joined.rend());
}

/// Adds `count` channels from `first` on, in nested blocks of `sizes`; inside each block both layouts have one stride.
void add_piece(std::vector<ElementWalk>& out, const ValueLayout& a, const ValueLayout& b, int64_t first, int64_t count,
               const std::vector<int64_t>& sizes) {
  if (count == 0) return;
  ElementWalk walk{a.offset + channel_offset(a, first), b.offset + channel_offset(b, first), {}};
  for (size_t d = 0; d < a.shape.size(); ++d) {
    if (d != 1) walk.loops.push_back({a.shape[d], a.strides[d], b.strides[d]});
  }
  int64_t left = count;
  for (size_t s = 0; s < sizes.size(); ++s) {
    const int64_t size = sizes[s];
    const int64_t turns = left / size;
    walk.loops.push_back({turns, channel_offset(a, first + size) - channel_offset(a, first),
                          channel_offset(b, first + size) - channel_offset(b, first)});
    left = size;
  }
  finish(walk);
  out.push_back(std::move(walk));
}

}  // namespace

std::vector<ElementWalk> walks(const ValueLayout& a, const ValueLayout& b) {
  std::vector<ElementWalk> out;
  if (std::any_of(a.shape.begin(), a.shape.end(), [](int64_t d) { return d == 0; })) return out;
  if (a.shape.size() < 2 || (a.block == 1 && b.block == 1)) {
    ElementWalk walk{a.offset, b.offset, {}};
    for (size_t d = 0; d < a.shape.size(); ++d) walk.loops.push_back({a.shape[d], a.strides[d], b.strides[d]});
    finish(walk);
    out.push_back(std::move(walk));
    return out;
  }
  const int64_t channels = a.shape[1];
  const int64_t large = std::lcm(a.block, b.block);
  const int64_t small = std::gcd(a.block, b.block);
  const int64_t middle = std::min(a.block, b.block);
  // If one block size divides the other, the channels are walked in larger blocks, then in smaller blocks, then one by
  // one. Otherwise (12 and 16) they are walked in pieces of the greatest common divisor.
  const bool nested = large == std::max(a.block, b.block);
  const std::vector<int64_t> sizes = nested ? std::vector<int64_t>{large, middle, 1} : std::vector<int64_t>{small, 1};
  if (nested) {
    const int64_t whole = channels / large * large;
    const int64_t next = whole + (channels - whole) / middle * middle;
    add_piece(out, a, b, 0, whole, sizes);
    add_piece(out, a, b, whole, next - whole, {middle, 1});
    add_piece(out, a, b, next, channels - next, {1});
    return out;
  }
  for (int64_t c = 0; c < channels; c += small) {
    const int64_t count = std::min(small, channels - c);
    add_piece(out, a, b, c, count, {1});
  }
  return out;
}

}  // namespace kilter::tune
