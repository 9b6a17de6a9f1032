// TakePixels: rows and columns of images, in any order and any number of times. Represents padding that repeats the
// image, crops, and strided slices of height and width.

#include "ops/support/take_pixels.h"

#include "ops/support/operands.h"
#include "ops/support/regions.h"

namespace kilter {
namespace {

struct Run {
  int64_t first, step, count;
};

// Returns the runs of `attribute`, all of whose indices must be in [0, extent).
std::vector<Run> checked_runs(const Node& node, std::string_view attribute, int64_t extent) {
  const std::vector<int64_t> numbers = node.ints_attr(std::string(attribute));
  if (numbers.size() % 3 != 0) {
    node_error(node,
               fmt::format("{} has {} numbers, expected first, step and count of each run", attribute, numbers.size()));
  }
  std::vector<Run> runs;
  for (size_t r = 0; r < numbers.size(); r += 3) {
    const Run run{numbers[r], numbers[r + 1], numbers[r + 2]};
    int64_t last = 0;
    const bool whole = run.count >= 1 && !__builtin_mul_overflow(run.count - 1, run.step, &last) &&
                       !__builtin_add_overflow(run.first, last, &last);
    if (!whole || std::min(run.first, last) < 0 || std::max(run.first, last) >= extent) {
      node_error(node, fmt::format("{} selects {} from {} on in steps of {}, which exceeds 0 to {}", attribute,
                                   run.count, run.first, run.step, extent - 1));
    }
    runs.push_back(run);
  }
  return runs;
}

// Returns how many indices `attribute` has, without writing them out, since a few numbers may represent more than fits
// in memory.
int64_t count_of(const Node& node, std::string_view attribute, int64_t extent) {
  int64_t count = 0;
  for (const Run& run : checked_runs(node, attribute, extent)) count = checked_add(node, count, run.count);
  return count;
}

void infer(InferContext& ctx) {
  Shape shape = ctx.shape(0);
  if (shape.size() != 4)
    ctx.error(fmt::format("input 0 of shape {} is not an image, expected 4 dimensions", text(shape)));
  shape[2] = count_of(ctx.node, "rows", shape[2]);
  shape[3] = count_of(ctx.node, "columns", shape[3]);
  set_same_dtype(ctx, std::move(shape));
}

void reference(ReferenceContext& ctx) {
  std::vector<IndexMap> maps;
  for (ResizeAxis& axis : pixels_plan(ctx.node, ctx.in(0).shape()).axes) maps.push_back(std::move(axis.index));
  copy_mapped(ctx.in(0), ctx.out(), maps, {});
}

int64_t no_flops(const OpView&) { return 0; }

ResizeAxis axis_of(int64_t extent, std::vector<int64_t> index) {
  const auto count = static_cast<int64_t>(index.size());
  return {extent, count, 1, std::move(index), std::vector<double>(static_cast<size_t>(count), 1.0), {}};
}

std::vector<int64_t> all_of(int64_t extent) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < extent; ++i) all.push_back(i);
  return all;
}

}  // namespace

std::vector<int64_t> runs_of(const std::vector<int64_t>& indices) {
  std::vector<int64_t> runs;
  for (size_t i = 0; i < indices.size();) {
    const int64_t step = i + 1 < indices.size() ? indices[i + 1] - indices[i] : 1;
    size_t end = i + 1;
    while (end < indices.size() && indices[end] - indices[end - 1] == step) ++end;
    runs.insert(runs.end(), {indices[i], step, static_cast<int64_t>(end - i)});
    i = end;
  }
  return runs;
}

std::vector<int64_t> indices_of(const Node& node, std::string_view attribute, int64_t extent) {
  std::vector<int64_t> all;
  for (const Run& run : checked_runs(node, attribute, extent)) {
    for (int64_t k = 0; k < run.count; ++k) all.push_back(run.first + k * run.step);
  }
  return all;
}

ResizePlan pixels_plan(const Node& node, const Shape& x) {
  ResizePlan plan;
  plan.axes = {axis_of(x[0], all_of(x[0])), axis_of(x[1], all_of(x[1])), axis_of(x[2], indices_of(node, "rows", x[2])),
               axis_of(x[3], indices_of(node, "columns", x[3]))};
  return plan;
}

KILTER_OP(TakePixels){
    .name = "TakePixels",
    .domain = "kilter",
    .family = Family::resize,
    .attrs = {{"rows", "ints", "required"}, {"columns", "ints", "required"}},
    .summary =
        "y[:, :, i, j] = x[:, :, rows[i], columns[j]] of [n, c, h, w]; indices as runs of first, step and count; "
        "created by the layout pass.",
    .infer = infer,
    .reference = reference,
    .resize = [](const OpView& view) { return pixels_plan(view.node, view.inputs[0].shape); },
    .flops = no_flops,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[1,3,5,6] | rows=[1,0,1,0,1,5,3,0,1] columns=[5,-1,6]",
              "f32[2,17,9,40] | rows=[0,2,5] columns=[3,1,33,35,-1,4]", "f32[1,32,4,4] | rows=[2,0,3] columns=[0,3,2]",
              "i64[1,2,3,3] | rows=[2,-2,2] columns=[0,1,3]"},
};

}  // namespace kilter
