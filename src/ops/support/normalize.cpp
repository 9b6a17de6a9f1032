#include "ops/support/normalize.h"

#include <cmath>

#include "ops/support/elementwise.h"
#include "ops/support/onnx_dtype.h"
#include "ops/support/overflow.h"

namespace kilter {

DType stash_dtype(const Node& node) {
  const int64_t code = node.int_attr("stash_type", 1);
  const auto type = dtype_of_code(code);
  if (!type || !is_float(*type)) {
    node_error(
        node, fmt::format("attribute stash_type is {}; legal values are 1 (f32), 10 (f16), 11 (f64), 16 (bf16)", code));
  }
  return *type;
}

Normalized normalize(const Tensor& x, int64_t block, double epsilon, bool centre) {
  Normalized result{load_doubles(x), {}, {}};
  if (result.values.empty()) return result;
  const int64_t blocks = x.elems() / block;
  const auto in_range = [type = x.dtype()](double v) { return in_range_of_sums(type, v); };
  for (int64_t b = 0; b < blocks; ++b) {
    double* values = result.values.data() + b * block;
    double mean = 0;
    for (int64_t i = 0; centre && i < block; ++i) mean = in_range(mean + values[i]);
    mean /= static_cast<double>(block);
    double square = 0;
    for (int64_t i = 0; i < block; ++i) {
      const double deviation = in_range(values[i] - mean);
      square = in_range(square + deviation * deviation);
    }
    const double inverse = 1.0 / std::sqrt(square / static_cast<double>(block) + epsilon);
    for (int64_t i = 0; i < block; ++i) values[i] = in_range(values[i] - mean) * inverse;
    result.means.push_back(mean);
    result.inverse_deviations.push_back(inverse);
  }
  return result;
}

void scale_and_shift(std::vector<double>& values, const Shape& shape, const Tensor& scale, const Tensor& bias) {
  const std::vector<double> factor = scale.defined() ? load_doubles(scale) : std::vector<double>{1.0};
  const std::vector<double> shift = bias.defined() ? load_doubles(bias) : std::vector<double>{0.0};
  const std::array<Shape, 2> strides = {broadcast_strides(scale.defined() ? scale.shape() : Shape{}, shape),
                                        broadcast_strides(bias.defined() ? bias.shape() : Shape{}, shape)};
  size_t i = 0;
  for_each_offset<2>(shape, strides, [&](const std::array<int64_t, 2>& at) {
    values[i] = values[i] * factor[static_cast<size_t>(at[0])] + shift[static_cast<size_t>(at[1])];
    ++i;
  });
}

void check_parameters(const InferContext& ctx, int64_t extent) {
  check_types(Floats{}, ctx, 0);
  check_same_dtype(ctx);
  if (ctx.rank(0) < 3 && !(ctx.rank(0) == 2 && ctx.node.op->name == "GroupNormalization")) {
    ctx.error(fmt::format("input 0 has shape {}, expected [N, C, d0, ...]", text(ctx.shape(0))));
  }
  for (size_t i = 1; i < 3; ++i) {
    if (ctx.shape(i) != Shape{extent}) {
      ctx.error(fmt::format("input {} has shape {}, expected {}", i, text(ctx.shape(i)), extent));
    }
  }
}

Shape channel_shape(int64_t channels, int64_t rank) {
  Shape shape(static_cast<size_t>(rank - 1), 1);
  shape[0] = channels;
  return shape;
}

}  // namespace kilter
