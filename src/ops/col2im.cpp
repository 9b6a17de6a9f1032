#include "ops/support/elementwise.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

/// The extents of x [batch, channels * taps, blocks]: every column is a block of taps, and blocks slide over the image.
struct Folding {
  Shape image;
  Shape kernel;
  Shape blocks;
  std::vector<int64_t> strides, dilations, pads_begin;
  int64_t channels = 0;
};

Folding folding(const Node& node, const Shape& x, const Tensor& image, const Tensor& kernel) {
  Folding f;
  f.image = operand_ints(node, image, "image_shape");
  f.kernel = operand_ints(node, kernel, "block_shape");
  const size_t rank = f.image.size();
  const auto list = [&](std::string_view key, size_t count, int64_t fallback, int64_t least) {
    std::vector<int64_t> values = node.ints_attr(key);
    if (values.empty()) values.assign(count, fallback);
    check_count(node, key, count, values.size());
    for (const int64_t value : values) {
      if (value < least || value > (int64_t{1} << 30)) {
        node_error(node, fmt::format("{} contains {}; legal values are {} to 2^30", key, value, least));
      }
    }
    return values;
  };
  check_count(node, "entries of block_shape", rank, f.kernel.size());
  check_shape(node, f.image);
  check_shape(node, f.kernel);
  f.strides = list("strides", rank, 1, 1);
  f.dilations = list("dilations", rank, 1, 1);
  const std::vector<int64_t> pads = list("pads", 2 * rank, 0, 0);
  f.pads_begin.assign(pads.begin(), pads.begin() + static_cast<int64_t>(rank));
  for (size_t a = 0; a < rank; ++a) {
    const int64_t span = checked_add(node, checked_mul(node, f.kernel[a] - 1, f.dilations[a]), 1);
    const int64_t free = f.image[a] + pads[a] + pads[rank + a] - span;
    f.blocks.push_back(free < 0 ? 0 : free / f.strides[a] + 1);
  }
  const int64_t taps = elems(f.kernel);
  if (x.size() != 3 || taps < 1 || x[1] % taps != 0 || x[2] != elems(f.blocks)) {
    node_error(node, fmt::format("input has shape {}, expected [N, C * {}, {}] for {} blocks in an image of {}",
                                 text(x), taps, elems(f.blocks), text(f.kernel), text(f.image)));
  }
  f.channels = x[1] / taps;
  return f;
}

void infer(InferContext& ctx) {
  check_types(NumbersAndBool{}, ctx, 0);
  const Folding f = folding(ctx.node, ctx.shape(0), ctx.needed(1), ctx.needed(2));
  Shape out = {ctx.shape(0)[0], f.channels};
  out.insert(out.end(), f.image.begin(), f.image.end());
  ctx.set(0, ctx.dtype(0), out);
}

void reference(ReferenceContext& ctx) {
  const Folding f = folding(ctx.node, ctx.in(0).shape(), ctx.in(1), ctx.in(2));
  const std::vector<double> x = load_doubles(ctx.in(0));
  std::vector<double> y(static_cast<size_t>(ctx.out().elems()), 0.0);
  const int64_t planes = ctx.in(0).shape()[0] * f.channels;
  const int64_t image = elems(f.image);
  const int64_t columns = elems(f.blocks);
  const int64_t taps = elems(f.kernel);
  int64_t tap_number = 0;
  for_each_index(f.kernel, [&](std::span<const int64_t> tap) {
    int64_t column = 0;
    for_each_index(f.blocks, [&](std::span<const int64_t> block) {
      int64_t position = 0;
      bool in_image = true;
      for (size_t a = 0; a < f.image.size(); ++a) {
        const int64_t at = block[a] * f.strides[a] + tap[a] * f.dilations[a] - f.pads_begin[a];
        in_image = in_image && at >= 0 && at < f.image[a];
        position = position * f.image[a] + at;
      }
      for (int64_t p = 0; in_image && p < planes; ++p) {
        y[static_cast<size_t>(p * image + position)] +=
            x[static_cast<size_t>((p * taps + tap_number) * columns + column)];
      }
      ++column;
    });
    ++tap_number;
  });
  store_doubles(ctx.out(), y);
}

}  // namespace

KILTER_OP(Col2Im){
    .name = "Col2Im",
    .since = 18,
    .min_inputs = 3,
    .max_inputs = 3,
    .attrs = {{"dilations", "ints", ""}, {"pads", "ints", ""}, {"strides", "ints", ""}},
    .summary =
        "Adds the blocks in the columns of x [N, C * taps, blocks] at their places in images [N, C, image_shape...].",
    .infer = infer,
    .reference = reference,
    .shape_operands = {1, 2},
    .cases = {"f32[1,9,12] i64[2]=5,6 i64[2]=3,3", "f32[2,12,9] i64[2]=6,6 i64[2]=2,2 | strides=[2,2]",
              "f32[1,6,16] i64[2]=5,5 i64[2]=2,3 | dilations=[2,1] pads=[0,1,1,0]",
              "f32[1,8,27] i64[3]=4,4,4 i64[3]=2,2,2"},
};

}  // namespace kilter
