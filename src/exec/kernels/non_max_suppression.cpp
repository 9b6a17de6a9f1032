// NonMaxSuppression: sorts only as many scores as are needed, and compares a box only with the kept boxes in those
// columns of the image that it reaches, one block of boxes at a time.
#include <algorithm>
#include <array>
#include <limits>

#include "exec/kernels/order_key.h"
#include "exec/kernels/parallel.h"
#include "exec/kernels/shapes.h"
#include "exec/kernels/wide.h"

namespace kilter {
namespace {

/// The corners of a box, low to high, and its area.
struct Box {
  float top, left, bottom, right, area;
};

Box box_of(const float* p, bool centered) {
  Box box{};
  if (centered) {
    box = {p[1] - p[3] / 2, p[0] - p[2] / 2, p[1] + p[3] / 2, p[0] + p[2] / 2, 0};
  } else {
    box = {std::min(p[0], p[2]), std::min(p[1], p[3]), std::max(p[0], p[2]), std::max(p[1], p[3]), 0};
  }
  box.area = (box.bottom - box.top) * (box.right - box.left);
  return box;
}

/// The boxes of an image.
struct Boxes {
  const float* corners = nullptr;
  int64_t count = 0;
  bool centered = false;
  Box at(size_t i) const { return box_of(corners + 4 * i, centered); }
};

/// Boxes in blocks of kBlock, each coordinate of a block together. Missing boxes of the last block are empty.
class Blocks {
 public:
  void add(const Box& box) {
    const size_t lane = count_++ % kBlock;
    if (lane == 0) blocks_.emplace_back();
    Block& block = blocks_.back();
    block.top[lane] = box.top, block.left[lane] = box.left;
    block.bottom[lane] = box.bottom, block.right[lane] = box.right, block.area[lane] = box.area;
  }

  /// Returns whether a box's intersection over union with any of the boxes exceeds the threshold. Empty boxes overlap
  /// nothing.
  KILTER_WIDE bool hides(const Box& box, float threshold) const {
    bool any = false;
    for (size_t b = 0; b < blocks_.size() && !any; ++b) any = any_overlap(blocks_[b], box, threshold);
    return any;
  }

 private:
  static constexpr size_t kBlock = 32;
  struct Block {
    std::array<float, kBlock> top{}, left{}, bottom{}, right{}, area{};
  };

  KILTER_WIDE static bool any_overlap(const Block& block, const Box& box, float threshold) {
    int32_t any = 0;
    for (size_t i = 0; i < kBlock; ++i) {
      const float bottom = block.bottom[i] < box.bottom ? block.bottom[i] : box.bottom;
      const float top = box.top < block.top[i] ? block.top[i] : box.top;
      const float right = block.right[i] < box.right ? block.right[i] : box.right;
      const float left = box.left < block.left[i] ? block.left[i] : box.left;
      const float height = bottom - top, width = right - left;
      const float shared = height * width;
      const float total = box.area + block.area[i] - shared;
      const float ratio = shared / total;
      any |= static_cast<int32_t>(height > 0) & static_cast<int32_t>(width > 0) & static_cast<int32_t>(shared > 0) &
             static_cast<int32_t>(total > 0) & static_cast<int32_t>(ratio > threshold);
    }
    return any != 0;
  }

  std::vector<Block> blocks_;
  size_t count_ = 0;
};

/// The kept boxes, by the column of the image that contains their centre. If the boxes of all classes are in one list,
/// models usually move each class to a place of its own, so that a box can overlap the boxes of only a few columns.
class Kept {
 public:
  /// For boxes whose centres are from `low` to `high`.
  Kept(size_t columns, float low, float high)
      : columns_(columns), left_(columns, kFar), right_(columns, -kFar), low_(low) {
    const float width = high - low;
    if (columns > 1 && width > 0 && width < kFar) per_unit_ = static_cast<float>(columns) / width;
  }

  void add(const Box& box) {
    const float place = (centre(box) - low_) * per_unit_;
    const size_t last = columns_.size() - 1;
    const size_t column = !(place > 0) ? 0 : place < static_cast<float>(last) ? static_cast<size_t>(place) : last;
    columns_[column].add(box);
    left_[column] = std::min(left_[column], box.left), right_[column] = std::max(right_[column], box.right);
  }

  /// As Blocks::hides().
  bool hides(const Box& box, float threshold) const {
    bool any = false;
    run_wide([&]() KILTER_WIDE {
      for (size_t c = 0; c < columns_.size() && !any; ++c) {
        if (left_[c] < box.right && right_[c] > box.left) any = columns_[c].hides(box, threshold);
      }
    });
    return any;
  }

  static float centre(const Box& box) { return box.left + (box.right - box.left) / 2; }
  static constexpr float kFar = std::numeric_limits<float>::infinity();

 private:
  std::vector<Blocks> columns_;
  std::vector<float> left_, right_;  ///< of the boxes of each column: the least and the largest
  float low_ = 0, per_unit_ = 0;
};

/// Returns an empty set for those of these candidates that will be kept.
Kept room_for(const Boxes& boxes, const std::vector<uint64_t>& candidates) {
  constexpr size_t kFew = 512, kColumns = 256;
  if (candidates.size() <= kFew) return {1, 0, 0};
  float low = Kept::kFar, high = -Kept::kFar;
  for (const uint64_t candidate : candidates) {
    const float centre = Kept::centre(boxes.at(static_cast<uint32_t>(candidate)));
    low = std::min(low, centre), high = std::max(high, centre);
  }
  return {kColumns, low, high};
}

struct Limits {
  int64_t most = 0;
  float overlap = 0;
  const float* score = nullptr;  ///< only boxes above it are considered
};

Limits limits_of(KernelOperands in) {
  const auto given = [&](size_t i) { return !left_out(in, i) && in[i].elems > 0; };
  Limits limits;
  if (given(2)) limits.most = std::max<int64_t>(*in[2].as<int64_t>(), 0);
  if (given(3)) limits.overlap = *in[3].as<float>();
  if (given(4)) limits.score = in[4].as<float>();
  return limits;
}

/// Returns the candidates of a class as numbers that sort by descending score, then by index, which is in the lower
/// half.
std::vector<uint64_t> candidates_of(const float* scores, size_t count, const float* least) {
  std::vector<uint64_t> found(count);
  const float bound = least == nullptr ? -std::numeric_limits<float>::infinity() : *least;
  size_t next = 0;
  for (size_t i = 0; i < count; ++i) {
    const float score = scores[i];
    found[next] = uint64_t{~order_key(score)} << 32 | i;
    next += static_cast<size_t>(score > bound || (least == nullptr && score == bound));
  }
  found.resize(next);
  return found;
}

/// Returns the boxes of one class, best score first (lower index among equals), without those that overlap an earlier
/// one.
std::vector<uint32_t> selected(const Boxes& boxes, const float* scores, const Limits& limits) {
  std::vector<uint32_t> kept;
  std::vector<uint64_t> order = candidates_of(scores, static_cast<size_t>(boxes.count), limits.score);
  Kept earlier = room_for(boxes, order);
  size_t sorted = 0;
  for (size_t next = 0; next < order.size() && std::ssize(kept) < limits.most; ++next) {
    if (next == sorted) {  // sort as many again as have been looked at
      constexpr size_t kFirst = 128;
      sorted = std::min(order.size(), std::max(kFirst, 2 * sorted));
      const auto begin = order.begin() + static_cast<std::ptrdiff_t>(next);
      const auto middle = order.begin() + static_cast<std::ptrdiff_t>(sorted);
      if (middle != order.end()) std::nth_element(begin, middle, order.end());
      std::sort(begin, middle);
    }
    const auto i = static_cast<uint32_t>(order[next]);
    const Box box = boxes.at(i);
    if (earlier.hides(box, limits.overlap)) continue;
    kept.push_back(i);
    earlier.add(box);
  }
  return kept;
}

bool takes(const KernelCall&, KernelOperands in) {
  const auto is = [&](size_t i, DType type) { return left_out(in, i) || in[i].type == type; };
  if (!has_type(in, 0, DType::f32) || !has_type(in, 1, DType::f32)) return false;
  if (!is(2, DType::i64) || !is(3, DType::f32) || !is(4, DType::f32)) return false;
  const auto boxes = in[0].shape, scores = in[1].shape;
  return boxes.size() == 3 && boxes[2] == 4 && scores.size() == 3 && scores[0] == boxes[0] && scores[2] == boxes[1] &&
         boxes[1] <= int64_t{std::numeric_limits<uint32_t>::max()};
}

bool run(const KernelCall& call, KernelOperands in, KernelResults& results, ThreadPool* pool) {
  const Limits limits = limits_of(in);
  const bool centered = call.int_attr("center_point_box", 0) != 0;
  const int64_t batches = in[0].shape[0], count = in[0].shape[1], classes = in[1].shape[1];
  const bool any = count > 0 && limits.most > 0;
  std::vector<std::vector<uint32_t>> kept(static_cast<size_t>(any ? batches * classes : 0));
  int64_t rows = 0;
  for (int64_t batch = 0; batch < batches && any; ++batch) {
    const Boxes boxes{in[0].as<float>() + batch * count * 4, count, centered};
    parallel_ranges(pool, classes, 64 * count, [&](int64_t begin, int64_t end) {
      for (int64_t c = batch * classes + begin; c < batch * classes + end; ++c)
        kept[static_cast<size_t>(c)] = selected(boxes, in[1].as<float>() + c * count, limits);
    });
  }
  for (const auto& of_class : kept) rows += std::ssize(of_class);
  const int64_t shape[] = {rows, 3};
  auto* out = results.make<int64_t>(0, shape);
  for (int64_t c = 0; c < std::ssize(kept); ++c) {
    for (const uint32_t i : kept[static_cast<size_t>(c)]) {
      *out++ = c / classes;
      *out++ = c % classes;
      *out++ = i;
    }
  }
  return true;
}

}  // namespace

extern const RuntimeKernel non_max_suppression_kernel;
const RuntimeKernel non_max_suppression_kernel{"NonMaxSuppression", 10, "", takes, run};

}  // namespace kilter
