// Steps of Adagrad, Adam and Momentum, calculated by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "../base/error_of.h"
#include "ops/support/builder.h"
#include "ops/support/evaluate.h"

namespace kilter {
namespace {

std::vector<Tensor> step(std::string_view op, const std::vector<Tensor>& inputs, Attrs attrs, size_t outputs) {
  Graph graph;
  GraphBuilder builder(graph, 1);
  std::vector<ValueId> ids;
  for (size_t i = 0; i < inputs.size(); ++i) {
    ids.push_back(builder.input("in" + std::to_string(i), inputs[i].dtype(), inputs[i].shape()));
  }
  GraphBuilder::Options options;
  options.name = "n";
  options.domain = "ai.onnx.preview.training";
  for (size_t i = 0; i < outputs; ++i) options.output_names.push_back("out" + std::to_string(i));
  for (const ValueId id : builder.add(op, ids, std::move(attrs), options)) graph.add_output(id, graph.value(id).name);
  return evaluate(graph, inputs);
}
Tensor floats(const std::vector<float>& values) {
  return Tensor::of<float>({static_cast<int64_t>(values.size())}, std::span<const float>(values));
}
Tensor steps(int64_t t) { return Tensor::scalar<int64_t>(t); }
void expect_near(const Tensor& got, const std::vector<double>& want) {
  ASSERT_EQ(got.elems(), static_cast<int64_t>(want.size()));
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got.as_double(static_cast<int64_t>(i)), want[i], 1e-6);
}

const Tensor kRate = Tensor::scalar(0.5F);

TEST(Optimizers, AdagradDividesByTheRootOfAllSquares) {
  const Attrs attrs = {{"norm_coefficient", 0.5F}, {"decay_factor", 0.25F}, {"epsilon", 0.0F}};
  // g = 0.5 * 2 + 2 = 3, h = 7 + 9 = 16, rate = 0.5 / (1 + 4 * 0.25) = 0.25.
  const std::vector<Tensor> y = step("Adagrad", {kRate, steps(4), floats({2}), floats({2}), floats({7})}, attrs, 2);
  expect_near(y[0], {2 - 0.25 * 3 / 4});
  expect_near(y[1], {16});
}

TEST(Optimizers, TensorsOfOneNodeAreGrouped) {
  const Attrs attrs = {{"epsilon", 0.0F}};
  const std::vector<Tensor> y =
      step("Adagrad",
           {kRate, steps(0), floats({1}), Tensor::of<double>({2}, {2, 3}), floats({3}),
            Tensor::of<double>({2}, {5, 12}), floats({16}), Tensor::of<double>({2}, {144, 25})},
           attrs, 4);
  expect_near(y[0], {1 - 0.5 * 3 / 5});
  expect_near(y[1], {2 - 0.5 * 5 / 13, 3 - 0.5 * 12 / 13});
  expect_near(y[2], {25});
  expect_near(y[3], {169, 169});
}

TEST(Optimizers, AdamCorrectsItsBiasAfterTheFirstStep) {
  const Attrs attrs = {{"alpha", 0.5F}, {"beta", 0.75F}, {"epsilon", 1.0F}, {"norm_coefficient_post", 0.25F}};
  const auto run = [&](int64_t t) {
    return step("Adam", {kRate, steps(t), floats({2}), floats({4}), floats({8}), floats({16})}, attrs, 3);
  };
  // v = 0.5 * 8 + 0.5 * 4 = 6, h = 0.75 * 16 + 0.25 * 16 = 16.
  expect_near(run(0)[0], {0.75 * (2 - 0.5 * 6 / 5)});
  const double rate = 0.5 * std::sqrt(1 - 0.5625) / 0.75;
  expect_near(run(2)[0], {0.75 * (2 - rate * 6 / 5)});
  expect_near(run(2)[1], {6});
  expect_near(run(2)[2], {16});
}

TEST(Optimizers, MomentumWeighsTheFirstGradientFully) {
  Attrs attrs = {{"alpha", 0.5F}, {"beta", 0.25F}, {"norm_coefficient", 0.0F}, {"mode", std::string("standard")}};
  const auto run = [&](int64_t t) {
    return step("Momentum", {kRate, steps(t), floats({1}), floats({4}), floats({2})}, attrs, 2);
  };
  expect_near(run(0)[1], {5});
  expect_near(run(0)[0], {1 - 0.5 * 5});
  expect_near(run(1)[1], {2});
  attrs["mode"] = std::string("nesterov");
  expect_near(run(1)[0], {1 - 0.5 * (4 + 0.5 * 2)});
}

TEST(Optimizers, OperandsThatDoNotFitAreNamed) {
  const Attrs momentum = {
      {"alpha", 0.5F}, {"beta", 0.25F}, {"norm_coefficient", 0.0F}, {"mode", std::string("standard")}};
  const auto error = [](std::string_view op, const std::vector<Tensor>& in, Attrs attrs, size_t outputs) {
    return error_of([&] { step(op, in, std::move(attrs), outputs); }, ErrorKind::bad_model);
  };
  const Tensor x = floats({1});
  EXPECT_EQ(error("Momentum", {kRate, steps(0), x, x, x, x}, momentum, 2),
            "Momentum 'n': has 6 inputs, expected a learning rate, a number of steps, and 3 inputs for each tensor");
  EXPECT_EQ(error("Momentum", {kRate, steps(0), x, x, x}, momentum, 3),
            "Momentum 'n': has 3 outputs, expected 2: 2 for each of 1 tensors");
  EXPECT_EQ(error("Momentum", {kRate, steps(0), x, floats({1, 2}), x}, momentum, 2),
            "Momentum 'n': input 3 is f32[2], expected f32[1] to match input 2");
  EXPECT_EQ(error("Adagrad", {floats({1, 2}), steps(0), x, x, x}, {}, 2),
            "Adagrad 'n': input 0 has shape 2, expected a scalar");
  EXPECT_EQ(error("Adam", {kRate, steps(0), x, x, x, x}, {{"beta", -1.0F}}, 3),
            "Adam 'n': alpha is 0.9 and beta -1; expected 0 or more");
  Attrs other = momentum;
  other["mode"] = std::string("heavy");
  EXPECT_EQ(error("Momentum", {kRate, steps(0), x, x, x}, other, 2),
            "Momentum 'n': attribute mode is 'heavy'; legal values are standard and nesterov");
}

}  // namespace
}  // namespace kilter
