// Gradient: compared with differences of the function's values, for every operator with a known derivative.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../base/error_of.h"
#include "base/random.h"
#include "ops/support/builder.h"
#include "ops/support/derivatives.h"
#include "ops/support/evaluate.h"

namespace kilter {
namespace {

using Ints = std::vector<int64_t>;
using Texts = std::vector<std::string>;

std::vector<ValueId> add_gradient(GraphBuilder& builder, std::vector<ValueId> inputs, const Texts& xs, const Texts& zs,
                                  const std::string& y, size_t outputs) {
  GraphBuilder::Options options;
  options.domain = "ai.onnx.preview.training";
  options.name = "g";
  options.output_count = outputs;
  return builder.add("Gradient", std::move(inputs), {{"xs", xs}, {"zs", zs}, {"y", y}}, options);
}

/// An operator with inputs of f64. Inputs that are not differentiated are constants.
struct Function {
  std::string op;
  std::vector<Shape> shapes;
  std::vector<Tensor> constants = {};  ///< further operands, after the inputs
  Attrs attrs = {};
  int32_t opset = kNewestOpset;
};

/// Returns positive values, away from the places where a function has no derivative.
Tensor drawn(const Shape& shape, uint64_t seed) {
  Tensor x(DType::f64, shape);
  const Random random(seed);
  for (int64_t i = 0; i < x.elems(); ++i) x.data<double>()[i] = random.uniform(static_cast<uint64_t>(i), 0.5F, 2.0F);
  return x;
}

/// Compares the gradients of sum(w * f(x)) with central differences.
void expect_derivative(const Function& f) {
  SCOPED_TRACE(f.op);
  Graph graph;
  GraphBuilder builder(graph, f.opset);
  std::vector<ValueId> inputs;
  std::vector<Tensor> at;
  Texts names;
  for (size_t i = 0; i < f.shapes.size(); ++i) {
    names.push_back("x" + std::to_string(i));
    inputs.push_back(builder.input(names.back(), DType::f64, f.shapes[i]));
    at.push_back(drawn(f.shapes[i], i));
  }
  std::vector<ValueId> operands = inputs;
  for (const Tensor& constant : f.constants) operands.push_back(builder.constant(constant));
  const ValueId y = builder.add(f.op, operands, f.attrs, "f");
  const ValueId weights = builder.constant(drawn(graph.type(y).shape, 99));
  const ValueId weighted = builder.add("Mul", {y, weights}, {}, "weighted");
  const ValueId total = builder.add("ReduceSum", {weighted}, {{"keepdims", int64_t{0}}}, "total");
  for (ValueId g : add_gradient(builder, inputs, names, {}, graph.value(total).name, names.size()))
    graph.add_output(g, graph.value(g).name);
  graph.add_output(total, "sum");
  const std::vector<Tensor> results = evaluate(graph, at);
  constexpr double kStep = 1e-5;
  for (size_t i = 0; i < at.size(); ++i) {
    ASSERT_EQ(results[i].shape(), f.shapes[i]);
    for (int64_t k = 0; k < at[i].elems(); ++k) {
      const auto moved = [&](double by) {
        std::vector<Tensor> there = at;
        there[i] = at[i].clone();
        there[i].data<double>()[k] += by;
        return evaluate(graph, there).back().as_double(0);
      };
      EXPECT_NEAR(results[i].as_double(k), (moved(kStep) - moved(-kStep)) / (2 * kStep), 1e-6)
          << "input " << i << " element " << k;
    }
  }
}

TEST(Gradient, AgreesWithFiniteDifferences) {
  const auto list = [](const Ints& values) {
    return Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, values);
  };
  const Attrs dropped = {{"keepdims", int64_t{0}}};
  const std::vector<Function> functions = {
      {"Abs", {{2, 3}}},
      {"Add", {{2, 3}, {3}}},
      {"Cast", {{3}}, {}, {{"to", int64_t{11}}}},
      {"Cos", {{3}}},
      {"Div", {{2, 3}, {2, 1}}},
      {"Erf", {{3}}},
      {"Exp", {{3}}},
      {"Expand", {{2, 1}}, {list({4, 2, 3})}},
      {"Flatten", {{2, 3, 2}}},
      {"Gemm",
       {{3, 2}, {4, 3}, {4}},
       {},
       {{"transA", int64_t{1}}, {"transB", int64_t{1}}, {"alpha", 0.5F}, {"beta", 2.0F}}},
      {"Gemm", {{2, 3}, {3, 4}}},
      {"Identity", {{3}}},
      {"Log", {{3}}},
      {"MatMul", {{2, 2, 3}, {3, 4}}},
      {"Mul", {{2, 3}, {}}},
      {"Neg", {{3}}},
      {"Pow", {{2, 3}, {3}}},
      {"Pow", {{3}}, {Tensor::scalar<int64_t>(3)}},
      {"Reciprocal", {{3}}},
      {"ReduceMean", {{2, 3, 4}}, {list({1})}, dropped},
      {"ReduceMean", {{2, 3, 4}}, {}, {{"axes", Ints{0, -1}}}, 13},
      {"ReduceSum", {{2, 3}}, {}, dropped},
      {"ReduceSum", {{2, 3, 4}}, {list({0, 2})}, dropped},
      {"ReduceSum", {{2, 3}}, {list({1})}},
      {"Relu", {{3}}},
      {"Reshape", {{2, 3}}, {list({3, 2})}},
      {"Sigmoid", {{3}}},
      {"Sin", {{3}}},
      {"Softmax", {{2, 3, 2}}, {}, {{"axis", int64_t{1}}}},
      {"Sqrt", {{3}}},
      {"Squeeze", {{1, 3}}, {list({0})}},
      {"Sub", {{3}, {2, 3}}},
      {"Tanh", {{3}}},
      {"Transpose", {{2, 3, 4}}, {}, {{"perm", Ints{1, 2, 0}}}},
      {"Unsqueeze", {{3}}, {list({1})}},
  };
  std::string tested;
  for (const Function& f : functions) {
    expect_derivative(f);
    tested += f.op + ",";
  }
  for (const std::string_view op : {"Where"}) tested += std::string(op) + ",";  // see the next test
  size_t known = 0;
  for (size_t at = 0; at != std::string::npos; at = derivable_ops().find(", ", at + 1)) {
    const size_t start = at == 0 ? 0 : at + 2;
    const std::string op = derivable_ops().substr(start, derivable_ops().find(',', start) - start);
    EXPECT_NE(tested.find(op + ","), std::string::npos) << op << " has no test";
    ++known;
  }
  EXPECT_EQ(known, 31U);
}

/// Evaluates d(where(c, a * b, b)) with other values than the named tensors have.
TEST(Gradient, InputsReplaceTheNamedTensors) {
  Graph graph;
  GraphBuilder builder(graph);
  const auto input = [&](const char* name) { return builder.input(name, DType::f32, {2}); };
  const ValueId a = input("a");
  const ValueId b = input("b");
  const ValueId other = input("other");
  const ValueId c = builder.constant(Tensor::of<bool>({2}, {true, false}));
  const ValueId product = builder.add("Mul", {a, b}, {}, "product");
  const ValueId y = builder.add("Where", {c, product, b}, {}, "y");
  const std::string name = graph.value(y).name;
  for (ValueId g : add_gradient(builder, {other, b}, {"a", "b"}, {}, name, 2)) graph.add_output(g, graph.value(g).name);
  graph.add_output(add_gradient(builder, {b, other}, {"b"}, {"a"}, name, 1)[0], "with_z");
  const auto floats = [](float x, float z) { return Tensor::of<float>({2}, {x, z}); };
  const std::vector<Tensor> results = evaluate(graph, {floats(2, 3), floats(5, 7), floats(11, 13)});
  EXPECT_TRUE(results[0].same(floats(5, 0)));
  EXPECT_TRUE(results[1].same(floats(11, 1)));
  EXPECT_TRUE(results[2].same(floats(11, 1)));
}

TEST(Gradient, SecondDerivatives) {
  Graph graph;
  GraphBuilder builder(graph);
  const ValueId x = builder.input("x", DType::f32, {});
  const ValueId cube = builder.add("Pow", {x, builder.constant(Tensor::scalar<int64_t>(3))}, {}, "cube");
  const ValueId first = add_gradient(builder, {x}, {"x"}, {}, graph.value(cube).name, 1)[0];
  graph.add_output(add_gradient(builder, {x}, {"x"}, {}, graph.value(first).name, 1)[0], "second");
  EXPECT_EQ(evaluate(graph, {Tensor::scalar(2.0F)})[0].data<float>()[0], 12);
}

TEST(Gradient, MissingDerivativesAreNamed) {
  Graph graph;
  GraphBuilder builder(graph);
  const ValueId x = builder.input("x", DType::f32, {2, 2});
  builder.add("Det", {x}, {}, "det");
  builder.add("Shape", {x}, {}, "shape");
  const auto error = [&](const std::string& y, const Texts& xs, size_t outputs = 1) {
    return error_of([&] { add_gradient(builder, {x}, xs, {}, y, outputs); });
  };
  EXPECT_EQ(error(graph.value(graph.node(graph.order()[0]).outputs[0]).name, {"x"}),
            "Gradient 'g': the derivative of Det 'det' is not known; it is known for " + derivable_ops());
  EXPECT_EQ(error("nowhere", {"x"}),
            "Gradient 'g': no tensor is named 'nowhere' before this node; xs, zs and y name tensors");
  EXPECT_EQ(error("x", {"x", "x"}), "Gradient 'g': expected 2 inputs, one for each name in xs and zs, got 1");
  EXPECT_EQ(error("x", {"x"}, 2), "Gradient 'g': has 2 outputs, expected at most 1");
}

}  // namespace
}  // namespace kilter
