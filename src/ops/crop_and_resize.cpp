#include <cmath>

#include "ops/support/elementwise.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

enum Input : size_t { kX, kBoxes, kImages, kSize };

bool by_nearest(const Node& node) {
  const std::string mode = node.string_attr("mode", "bilinear");
  if (mode == "nearest") return true;
  if (mode == "bilinear") return false;
  node_error(node, fmt::format("attribute mode is '{}'; legal values are bilinear, nearest", mode));
}

void infer(InferContext& ctx) {
  check_types(Types<float>{}, ctx, kX);
  by_nearest(ctx.node);
  const Shape& x = ctx.shape(kX);
  const Shape& boxes = ctx.shape(kBoxes);
  if (x.size() != 4 || boxes.size() != 2 || boxes[1] != 4 || ctx.shape(kImages) != Shape{boxes[0]} ||
      ctx.dtype(kBoxes) != ctx.dtype(kX)) {
    ctx.error(
        fmt::format("has images {}, boxes {} and batch_indices {}; expected [N, C, H, W], [boxes, 4] of the same "
                    "element type, and [boxes]",
                    text(ctx.type(kX)), text(ctx.type(kBoxes)), text(ctx.shape(kImages))));
  }
  check_types(Types<int32_t>{}, ctx, kImages);
  const std::vector<int64_t> size = operand_ints(ctx.node, ctx.needed(kSize), "crop_size");
  if (size.size() != 2 || size[0] < 1 || size[1] < 1) {
    ctx.error(fmt::format("crop_size has {} elements ({}), expected a positive height and width", size.size(),
                          fmt::join(size, ", ")));
  }
  const Shape y = {boxes[0], x[1], size[0], size[1]};
  check_shape(ctx.node, y);
  ctx.set(0, ctx.dtype(kX), y);
}

/// The place of output position i in an axis of `extent` elements, of which the box covers from..to, as parts of its
/// length; corners of the box are at the first and last output. The sums are those of f32, since the nearest element
/// depends on their rounding.
double place(float from, float to, int64_t i, int64_t count, int64_t extent) {
  const auto last = static_cast<float>(extent - 1);
  if (count == 1) return static_cast<double>(0.5F * (from + to) * last);
  const float step = (to - from) * last / static_cast<float>(count - 1);
  return static_cast<double>(from * last + static_cast<float>(i) * step);
}

/// The value of a plane [h, w] at a place inside it.
double sample(const double* plane, int64_t w, double y, double x, bool nearest) {
  if (nearest) return plane[static_cast<int64_t>(std::round(y)) * w + static_cast<int64_t>(std::round(x))];
  const auto top = static_cast<int64_t>(std::floor(y)), left = static_cast<int64_t>(std::floor(x));
  const auto bottom = static_cast<int64_t>(std::ceil(y)), right = static_cast<int64_t>(std::ceil(x));
  const double down = y - std::floor(y), across = x - std::floor(x);
  const auto row = [&](int64_t at) {
    return plane[at * w + left] + (plane[at * w + right] - plane[at * w + left]) * across;
  };
  return row(top) + (row(bottom) - row(top)) * down;
}

void reference(ReferenceContext& ctx) {
  const bool nearest = by_nearest(ctx.node);
  const double outside = ctx.node.float_attr("extrapolation_value", 0);
  const Shape& in = ctx.in(kX).shape();
  const Shape& out = ctx.out().shape();
  const std::vector<double> x = load_doubles(ctx.in(kX));
  std::vector<double> y;
  y.reserve(static_cast<size_t>(ctx.out().elems()));
  for (int64_t r = 0; r < out[0]; ++r) {
    const int64_t image = ctx.in(kImages).as_int(r);
    if (image < 0 || image >= in[0]) {
      fail(ErrorKind::bad_input, "{}: batch_indices[{}] is {}; legal values are 0 to {}", label(ctx.node), r, image,
           in[0] - 1);
    }
    const float* box = ctx.in(kBoxes).data<float>() + r * 4;
    for (int64_t i = 0; i < out[1] * out[2] * out[3]; ++i) {
      const double row = place(box[0], box[2], i / out[3] % out[2], out[2], in[2]);
      const double column = place(box[1], box[3], i % out[3], out[3], in[3]);
      const bool inside =
          row >= 0 && row <= static_cast<double>(in[2] - 1) && column >= 0 && column <= static_cast<double>(in[3] - 1);
      const double* plane = x.data() + (image * in[1] + i / (out[2] * out[3])) * in[2] * in[3];
      y.push_back(inside ? sample(plane, in[3], row, column, nearest) : outside);
    }
  }
  store_doubles(ctx.out(), y);
}

}  // namespace

KILTER_OP(CropAndResize){
    .name = "CropAndResize",
    .domain = "com.microsoft",
    .min_inputs = 4,
    .max_inputs = 4,
    .attrs = {{"extrapolation_value", "float", "0"}, {"mode", "string", "bilinear"}},
    .summary =
        "Boxes cut out of images and resized, with their corners at the corners of the result: y [boxes, C, height, "
        "width]; inputs x [N, C, H, W], boxes [boxes, 4] (y1, x1, y2, x2 as parts of height and width), batch_indices, "
        "crop_size.",
    .infer = infer,
    .reference = reference,
    .shape_operands = {3},
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[2,3,6,7] f32[2,4]:0.1,0.2,0.9,0.7,0.5,-0.5,1.5,0.4 i32[2]:1,0 i32[2]=4,5 | extrapolation_value=9",
              "f32[1,2,5,5] f32[1,4]:0,0,1,1 i32[1]:0 i32[2]=3,1 | mode=nearest"},
};

}  // namespace kilter
