#include "ops/support/sequences.h"

#include <limits>

#include "ops/support/builder.h"
#include "ops/support/iterate.h"

namespace kilter {

size_t sequence_position(const RunContext& ctx, size_t i, size_t count, bool insert) {
  const Tensor& tensor = ctx.tensor(i);
  const bool integer = tensor.dtype() == DType::i32 || tensor.dtype() == DType::i64;
  if (!integer || tensor.elems() != 1)
    node_error(ctx.node, fmt::format("the position is {}, expected one i32 or i64", text(ctx.inputs[i])));
  const int64_t at = tensor.as_int(0), size = static_cast<int64_t>(count), last = insert ? size : size - 1;
  if (at < -size || at > last) {
    node_error(ctx.node, fmt::format("position {} is out of range for a sequence of {}; legal values are {} to {}", at,
                                     size, -size, last));
  }
  return static_cast<size_t>(at < 0 ? at + size : at);
}

Tensor part_along(const Tensor& tensor, int64_t axis, int64_t begin, int64_t count) {
  Shape shape = tensor.shape();
  shape[static_cast<size_t>(axis)] = count;
  Tensor out(tensor.dtype(), shape);
  const Shape strides = dense_strides(tensor.shape());
  copy_strided(tensor, begin * strides[static_cast<size_t>(axis)], strides, out, 0, dense_strides(shape), shape);
  return out;
}

Tensor run_operator(const Node& node, std::string_view op, std::vector<Tensor> inputs, Attrs attrs) {
  Node inner;
  inner.name = node.name;
  inner.opset = kNewestOpset;
  inner.op = find_op("", op, kNewestOpset);
  inner.attrs = std::move(attrs);
  inner.outputs = {0};
  std::vector<TensorType> types;
  for (size_t i = 0; i < inputs.size(); ++i) {
    inner.inputs.push_back(static_cast<ValueId>(i));
    types.push_back({inputs[i].dtype(), inputs[i].shape(), {}});
  }
  std::vector<const TensorType*> type_of;
  std::vector<const Tensor*> value_of;
  for (size_t i = 0; i < inputs.size(); ++i) {
    type_of.push_back(&types[i]);
    value_of.push_back(&inputs[i]);
  }
  const auto made = infer(inner, std::move(type_of), std::move(value_of), 1);
  return run_reference(inner, std::move(inputs), {*made[0]})[0];
}

}  // namespace kilter
