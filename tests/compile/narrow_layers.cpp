#include "narrow_layers.h"

#include <fmt/format.h>

namespace kilter {
namespace {

using Ints = std::vector<int64_t>;

}  // namespace

Tensor whole_numbers(SweepNet& net, const Shape& shape) {
  Tensor t(DType::f32, shape);
  for (float& v : t.span<float>()) v = static_cast<float>(net.draw.between(-8, 8));
  return t;
}

void make_conv(Layer& l) {
  Draw& draw = l.net.draw;
  const int64_t groups = draw.chance(30) ? draw.pick({2, 3, 4}) : 1;
  const int64_t in = groups * draw.pick({1, 3, 5, 8, 16, 17, 32, 33}), out = groups * draw.pick({1, 7, 16, 24, 32, 48});
  const int64_t r = draw.pick({1, 1, 3, 5}), s = draw.chance(80) ? r : 1, stride = draw.pick({1, 1, 2});
  const int64_t h = draw.between(r + 1, 15), w = draw.between(s + 1, 15), pad = draw.chance(60) ? r / 2 : 0;
  const int64_t pad_w = pad > 0 ? s / 2 : 0;
  std::vector<ValueId> operands = {l.input({draw.between(1, 2), in, h, w}), l.constant({out, in / groups, r, s})};
  if (draw.chance(50)) operands.push_back(l.constant({out}));
  ValueId y = l.net.b.add(
      "Conv", operands, {{"group", groups}, {"strides", Ints{stride, stride}}, {"pads", Ints{pad, pad_w, pad, pad_w}}});
  if (draw.chance(40)) y = l.net.b.add("Relu", {y});
  l.net.output(y);
}

void make_product(Layer& l) {
  Draw& draw = l.net.draw;
  const auto extent = [&] { return draw.pick({1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 64, 65}); };
  const int64_t m = extent(), n = extent(), k = extent();
  const Shape batch = draw.chance(50) ? Shape{} : Shape{draw.between(1, 3)};
  const auto matrix = [&](int64_t rows, int64_t columns) {
    Shape shape = batch;
    shape.push_back(rows), shape.push_back(columns);
    return shape;
  };
  const auto turned = [&](ValueId v) {
    return l.net.b.add("Transpose", {v}, {{"perm", batch.empty() ? Ints{1, 0} : Ints{0, 2, 1}}});
  };
  const ValueId a = draw.chance(20) ? turned(l.input(matrix(k, m))) : l.input(matrix(m, k));
  const ValueId b = draw.chance(50)   ? l.constant({k, n})
                    : draw.chance(40) ? turned(l.input(matrix(n, k)))
                                      : l.input(matrix(k, n));
  ValueId y = l.net.b.add("MatMul", {a, b});
  if (draw.chance(50)) y = l.net.b.add("Add", {y, l.constant({n})});
  l.net.output(y);
}

void make_attention(Layer& l) {
  Draw& draw = l.net.draw;
  const auto extent = [&] { return draw.pick({1, 2, 3, 15, 16, 17, 33, 48, 65}); };
  const int64_t queries = extent(), keys = extent(), size = extent(), v_size = extent(), heads = draw.between(1, 3);
  const auto matrix = [&](int64_t rows, int64_t columns) {
    if (draw.chance(50)) return l.input({1, heads, rows, columns});
    return l.net.b.add("Transpose", {l.input({1, rows, heads, columns})}, {{"perm", Ints{0, 2, 1, 3}}});
  };
  const ValueId q = matrix(queries, size), k = matrix(keys, size), v = matrix(keys, v_size);
  const ValueId turned = l.net.b.add("Transpose", {k}, {{"perm", Ints{0, 1, 3, 2}}});
  const ValueId scale = l.net.b.constant(Tensor::scalar(64.0F));
  ValueId scores = l.net.b.add("Mul", {l.net.b.add("MatMul", {q, turned}), scale});
  if (draw.chance(40)) {
    const Shape shape{1, 1, draw.chance(50) ? queries : 1, keys};
    const ValueId mask = draw.chance(50) ? l.constant(shape) : l.input(shape);
    scores = l.net.b.add("Add", {scores, l.net.b.add("Mul", {mask, scale})});
  }
  l.net.output(l.net.b.add("MatMul", {l.net.b.add("Softmax", {scores}), v}));
}

double difference(const Tensor& got, const Tensor& want) {
  double most = 0, scale = 0;
  for (int64_t i = 0; i < want.elems(); ++i) {
    most = std::max(most, std::abs(got.as_double(i) - want.as_double(i)));
    scale = std::max(scale, std::abs(want.as_double(i)));
  }
  return most / scale;
}

std::string network_of_codes(std::string_view nodes, const Shape& codes, const Shape& weights, int64_t zero) {
  return fmt::format(
      R"(graph "g" {{
    input %q: {}
    const %w: {}#w
    const %one: f32[](1)
    const %zero: u8[]({})
    %x: {} = kilter::Dequantize@1 "x" {{to=1}}(%q, %one, %zero)
    {}
    output "y" %y
  }})",
      text(TensorType{DType::u8, codes, {}}), text(TensorType{DType::f32, weights, {}}), zero,
      text(TensorType{DType::f32, codes, {}}), nodes);
}

}  // namespace kilter
