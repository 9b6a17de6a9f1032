// Operators in the forms that they had before opset 7.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../base/error_of.h"
#include "ops/support/builder.h"
#include "ops/support/evaluate.h"

namespace kilter {
namespace {

using Ints = std::vector<int64_t>;

/// Returns the first output at an old opset. Inputs are constants.
Tensor value_of(int32_t opset, std::string_view op, const std::vector<Tensor>& inputs, Attrs attrs = {}) {
  Graph graph;
  GraphBuilder builder(graph, opset);
  std::vector<ValueId> ids;
  for (const Tensor& input : inputs) ids.push_back(builder.constant(input));
  graph.add_output(builder.add(op, ids, std::move(attrs), "n"), "y");
  return evaluate(graph, {})[0];
}
Tensor floats(const Shape& shape, const std::vector<float>& values) {
  return Tensor::of<float>(shape, std::span<const float>(values));
}
void expect_floats(const Tensor& got, const Shape& shape, const std::vector<float>& want) {
  EXPECT_EQ(got.shape(), shape);
  EXPECT_EQ(std::vector<float>(got.data<float>(), got.data<float>() + got.elems()), want);
}
std::string error(int32_t opset, std::string_view op, const std::vector<Tensor>& inputs, Attrs attrs = {}) {
  return error_of([&] { value_of(opset, op, inputs, std::move(attrs)); });
}

TEST(OldForms, AxisAlignsTheSecondOperand) {
  const Tensor a = floats({2, 2}, {1, 2, 3, 4});
  const Tensor b = floats({2}, {10, 20});
  const Attrs rows = {{"broadcast", int64_t{1}}, {"axis", int64_t{0}}};
  expect_floats(value_of(6, "Add", {a, b}, rows), {2, 2}, {11, 12, 23, 24});
  expect_floats(value_of(6, "Add", {a, b}, {{"broadcast", int64_t{1}}}), {2, 2}, {11, 22, 13, 24});
  expect_floats(value_of(1, "Sub", {a, a}), {2, 2}, {0, 0, 0, 0});
  EXPECT_EQ(value_of(1, "Greater", {a, floats({2}, {1, 3})}, rows).ints(), (Ints{0, 1, 0, 1}));
  EXPECT_EQ(error(6, "Mul", {a, a}, {{"broadcast", int64_t{1}}, {"axis", int64_t{1}}}),
            "Mul 'n': input 1 of shape 2x2 does not fit into 2x2 from axis 1 on");
}

TEST(OldForms, AttributesThatBecameInputsOrChanged) {
  const Tensor x = floats({1, 2, 2}, {-1, 2, -3, 4});
  expect_floats(value_of(4, "Reshape", {x}, {{"shape", Ints{2, -1}}}), {2, 2}, {-1, 2, -3, 4});
  expect_floats(value_of(1, "Tile", {x, Tensor::scalar(2.0F), Tensor::scalar(2.0F)}), {1, 2, 4},
                {-1, 2, -1, 2, -3, 4, -3, 4});
  expect_floats(value_of(1, "Concat", {x, x}), {1, 4, 2}, {-1, 2, -3, 4, -1, 2, -3, 4});
  expect_floats(value_of(1, "Pad", {floats({1}, {1})}, {{"paddings", Ints{1, 0}}, {"value", 7.0F}}), {2}, {7, 1});
  expect_floats(value_of(6, "PRelu", {x, floats({2}, {10, 100})}), {1, 2, 2}, {-10, 2, -300, 4});
  expect_floats(
      value_of(1, "Upsample", {floats({1, 1, 1, 2}, {1, 2})}, {{"height_scale", 2.0F}, {"width_scale", 1.0F}}),
      {1, 1, 2, 2}, {1, 2, 1, 2});
  EXPECT_EQ(value_of(5, "Cast", {x}, {{"to", std::string("INT32")}}).ints(), (Ints{-1, 2, -3, 4}));
  expect_floats(value_of(1, "LpPool", {x}, {{"kernel_shape", Ints{2}}, {"p", 1.0F}}), {1, 2, 1}, {3, 7});
  expect_floats(value_of(5, "Clip", {x}, {{"min", 0.0F}, {"consumed_inputs", Ints{0}}}), {1, 2, 2}, {0, 2, 0, 4});
  expect_floats(value_of(1, "Selu", {floats({1}, {1})}), {1}, {1.0507F});
  expect_floats(value_of(6, "Gemm", {floats({1, 1}, {2}), floats({1, 2}, {3, 4}), floats({2}, {1, 1})},
                         {{"broadcast", int64_t{1}}}),
                {1, 2}, {7, 9});
}

TEST(OldForms, TrainingModeAndUnknownValuesAreErrors) {
  const Tensor x = floats({1, 1}, {1});
  const Tensor one = floats({1}, {1});
  EXPECT_EQ(
      error(6, "BatchNormalization", {x, one, one, one, one}),
      "BatchNormalization 'n': is_test is 0, which means the training mode of opsets before 7; convert the model to "
      "opset 14 or newer, or export it for inference");
  EXPECT_EQ(
      error(6, "Dropout", {x}),
      "Dropout 'n': is_test is 0, which means training mode before opset 7; convert the model to opset 12 or newer");
  EXPECT_EQ(error(5, "Cast", {x}, {{"to", std::string("int")}}),
            "Cast 'n': attribute to is 'int'; legal values are names such as FLOAT, INT64 and BOOL");
  EXPECT_EQ(error(1, "GlobalLpPool", {floats({1, 1, 1}, {1})}, {{"p", 1.5F}}),
            "GlobalLpPool 'n': attribute p is 1.5; expected a whole number of 1 or more");
}

}  // namespace
}  // namespace kilter
