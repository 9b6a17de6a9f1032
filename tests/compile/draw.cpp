#include "draw.h"

namespace kilter {

Tensor Draw::tensor(const Shape& shape, float scale) {
  Tensor t(DType::f32, shape);
  const Random values(random_.bits(next_++));
  values.fill_normal(t.span<float>(), scale);
  return t;
}

ValueId SweepNet::input(const Shape& shape) { return input(draw.tensor(shape)); }

ValueId SweepNet::input(Tensor value) {
  const std::string name = "x" + std::to_string(inputs_.size());
  inputs_.push_back(std::move(value));
  return b.input(name, inputs_.back().dtype(), inputs_.back().shape());
}

ValueId SweepNet::list(const std::vector<int64_t>& numbers) { return b.list(numbers); }

ValueId SweepNet::elementwise(ValueId v) {
  for (int64_t left = draw.between(0, 3); left > 0; --left) {
    if (draw.chance(8)) output(v);
    v = one_elementwise(v);
  }
  return v;
}

ValueId SweepNet::one_elementwise(ValueId v) {
  const Shape whole = shape(v);
  Shape channels(whole.size(), 1);
  if (whole.size() > 1) channels[1] = whole[1];
  switch (draw.between(0, 12)) {
    case 0:
    case 1:
      return b.add("Relu", {v});
    case 2:
    case 3:
      return b.add("Add", {v, input(whole)});
    case 4:
      return b.add("Add", {constant(channels), v});
    case 5:
      return b.add("Mul", {v, constant(channels)});
    case 6:
      return b.add("Add", {v, constant({})});
    case 7:
      return b.add("Sigmoid", {v});
    case 8:
      return b.add("Clip", {v, b.constant(Tensor::scalar(-0.5F)), b.constant(Tensor::scalar(1.25F))});
    case 9:
      return b.add("Max", {b.constant(Tensor::scalar(0.25F)), v});
    case 10:
      return b.add("PRelu", {v, constant(channels)});
    case 11: {
      const ValueId positive = b.add("Greater", {v, b.constant(Tensor::scalar(0.0F))});
      return b.add("Where", {positive, b.add("Sqrt", {b.add("Abs", {v})}), constant({})});
    }
    default: {
      Shape one = whole;
      for (int64_t& extent : one) extent = draw.chance(50) ? 1 : extent;
      return b.add("Sub", {v, input(one)});
    }
  }
}

}  // namespace kilter
