#include <algorithm>
#include <array>

#include "ops/support/elementwise.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

/// The corners of a box, low to high.
struct Box {
  float top, left, bottom, right;
};

Box box_of(const float* p, bool centered) {
  if (centered) return {p[1] - p[3] / 2, p[0] - p[2] / 2, p[1] + p[3] / 2, p[0] + p[2] / 2};
  return {std::min(p[0], p[2]), std::min(p[1], p[3]), std::max(p[0], p[2]), std::max(p[1], p[3])};
}

/// Whether the intersection over union exceeds the threshold. Empty boxes overlap nothing.
bool overlaps(const Box& a, const Box& b, float threshold) {
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (!(height > 0 && width > 0)) return false;
  const float shared = height * width;
  const float total = (a.bottom - a.top) * (a.right - a.left) + (b.bottom - b.top) * (b.right - b.left) - shared;
  return shared > 0 && total > 0 && shared / total > threshold;
}

struct Limits {
  int64_t most = 0;
  float overlap = 0;
  const float* score = nullptr;  ///< only boxes above it are considered
};

template <class Context>
Limits limits_of(const Context& ctx) {
  Limits limits;
  const auto number = [&](size_t i) -> const Tensor* {
    const Tensor* value = operand(ctx, i);
    return value != nullptr && value->elems() > 0 ? value : nullptr;
  };
  if (const Tensor* most = number(2)) limits.most = std::max<int64_t>(most->as_int(0), 0);
  if (const Tensor* overlap = number(3)) limits.overlap = *overlap->template data<float>();
  if (const Tensor* score = number(4)) limits.score = score->template data<float>();
  return limits;
}

/// Returns the selected boxes of one class: best score first (lower index among equals), skipping each box that
/// overlaps an earlier one.
std::vector<int64_t> selected(const std::vector<Box>& boxes, const float* scores, const Limits& limits) {
  std::vector<int64_t> candidates;
  for (int64_t i = 0; i < static_cast<int64_t>(boxes.size()); ++i) {
    const bool enough = limits.score == nullptr || scores[i] > *limits.score;
    if (enough && !std::isnan(scores[i])) candidates.push_back(i);
  }
  std::stable_sort(candidates.begin(), candidates.end(), [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
  std::vector<int64_t> kept;
  for (int64_t i : candidates) {
    if (static_cast<int64_t>(kept.size()) >= limits.most) break;
    const bool hidden = std::any_of(kept.begin(), kept.end(), [&](int64_t k) {
      return overlaps(boxes[static_cast<size_t>(i)], boxes[static_cast<size_t>(k)], limits.overlap);
    });
    if (!hidden) kept.push_back(i);
  }
  return kept;
}

/// Returns the output rows [batch, class, box].
std::vector<std::array<int64_t, 3>> suppress(const Node& node, const Tensor& boxes, const Tensor& scores,
                                             const Limits& limits) {
  const bool centered = node.int_attr("center_point_box", 0) != 0;
  const int64_t count = boxes.shape()[1];
  const int64_t classes = scores.shape()[1];
  std::vector<std::array<int64_t, 3>> rows;
  for (int64_t batch = 0; batch < boxes.shape()[0]; ++batch) {
    std::vector<Box> corners;
    for (int64_t i = 0; i < count; ++i)
      corners.push_back(box_of(boxes.data<float>() + (batch * count + i) * 4, centered));
    for (int64_t c = 0; c < classes; ++c) {
      const float* row = scores.data<float>() + (batch * classes + c) * count;
      for (int64_t i : selected(corners, row, limits)) rows.push_back({batch, c, i});
    }
  }
  return rows;
}

void infer(InferContext& ctx) {
  const Shape& boxes = ctx.shape(0);
  const Shape& scores = ctx.shape(1);
  check_types(Types<float>{}, ctx, 0);
  check_types(Types<float>{}, ctx, 1);
  if (ctx.has(2)) check_types(Types<int64_t>{}, ctx, 2);
  if (ctx.has(3)) check_types(Types<float>{}, ctx, 3);
  if (ctx.has(4)) check_types(Types<float>{}, ctx, 4);
  if (boxes.size() != 3 || boxes[2] != 4 || scores.size() != 3 || scores[0] != boxes[0] || scores[2] != boxes[1]) {
    ctx.error(fmt::format(
        "boxes have shape {} and scores have shape {}; expected [batch, boxes, 4] and [batch, classes, boxes]",
        text(boxes), text(scores)));
  }
  const auto rows = suppress(ctx.node, ctx.needed(0), ctx.needed(1), limits_of(ctx));
  ctx.set(0, DType::i64, {static_cast<int64_t>(rows.size()), 3});
}

void reference(ReferenceContext& ctx) {
  int64_t* out = ctx.out().data<int64_t>();
  for (const auto& row : suppress(ctx.node, ctx.in(0), ctx.in(1), limits_of(ctx)))
    out = std::copy(row.begin(), row.end(), out);
}

}  // namespace

KILTER_OP(NonMaxSuppression){
    .name = "NonMaxSuppression",
    .since = 10,
    .min_inputs = 2,
    .max_inputs = 5,
    .attrs = {{"center_point_box", "int", "0"}},
    .summary =
        "y = rows [batch, class, box] of the selected boxes, best score first: at most input 2 per class, none that "
        "overlaps a better one by more than input 3, none with a score up to input 4 or NaN. The shape depends on the "
        "data.",
    .infer = infer,
    .reference = reference,
    .shape_operands = {0, 1, 2, 3, 4},
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[1,3,4]=0,0,1,1,0,0.1,1,1.1,0,10,1,11 f32[1,1,3]=0.9,0.75,0.6 i64[1]=3 f32[1]=0.5 f32[1]=0",
              "f32[1,2,4]=1,1,0,0,0,0.1,1,1.1 f32[1,2,2]=0.9,0.75,0.1,0.2 i64[1]=1 f32[1]=0.5",
              "f32[1,2,4]=0.5,0.5,1,1,0.5,0.6,1,1 f32[1,1,2]=0.9,0.8 i64[]=2 f32[]=0.5 f32[]=0.85 | center_point_box=1",
              "f32[1,2,4]=0 f32[1,1,2]=1"},
};

}  // namespace kilter
