// The tolerance of the sweeps: it permits only rounding errors, and grows if a network is ill-conditioned.
#include "exact.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/support/builder.h"
#include "ops/support/evaluate.h"
#include "sweep.h"

namespace kilter {
namespace {

/// One convolution over 64 channels of N(0, 1).
struct Convolution {
  Convolution() : net(1) {
    const ValueId x = net.input({1, 64, 6, 6});
    net.output(net.b.add("Conv", {x, net.constant({8, 64, 3, 3})}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}}));
  }
  SweepNet net;
};

TEST(Exact, TakesSumsInF32InAnyOrder) {
  const Convolution c;
  Exact exact(c.net.graph(), c.net.inputs());
  const Tensor want = evaluate(c.net.graph(), c.net.inputs()).at(0);
  EXPECT_EQ(exact.judge(0, want, Rounding::sums), "");
  const Node& node = c.net.graph().node(c.net.graph().order().at(0));
  const auto x = c.net.inputs()[0].span<float>();
  const auto w = c.net.graph().value(node.inputs[1]).constant->span<float>();
  Tensor back(DType::f32, {1, 8, 6, 6});  // sums term by term, the last channel first
  for (int64_t i = 0; i < back.elems(); ++i) {
    float sum = 0;
    const int64_t k = i / 36, row = i / 6 % 6, column = i % 6;
    for (int64_t t = 64 * 9 - 1; t >= 0; --t) {
      const int64_t r = row + t / 3 % 3 - 1, s = column + t % 3 - 1;
      if (r < 0 || r > 5 || s < 0 || s > 5) continue;
      sum += x[static_cast<size_t>(t / 9 * 36 + r * 6 + s)] * w[static_cast<size_t>(k * 576 + t)];
    }
    back.data<float>()[i] = sum;
  }
  EXPECT_EQ(exact.judge(0, back, Rounding::sums), "");
}

TEST(Exact, RejectsErrorsBeyondRounding) {
  const Convolution c;
  Exact exact(c.net.graph(), c.net.inputs());
  const Tensor want = evaluate(c.net.graph(), c.net.inputs()).at(0);
  Tensor wrong = want.clone();
  wrong.data<float>()[100] += 0.01F;  // the terms' magnitudes sum to about 370, their squares to 24^2
  const std::string answer = exact.judge(0, wrong, Rounding::sums);
  EXPECT_EQ(answer.substr(0, 28), "element 100 of 1x8x6x6: got ");
  EXPECT_NE(answer.find(", expected "), std::string::npos) << answer;
  wrong = want.clone();
  wrong.data<float>()[100] += 0.003F;
  EXPECT_NE(exact.judge(0, wrong, Rounding::sums), "");
  wrong = want.clone();
  wrong.data<float>()[5] = std::nanf("");
  EXPECT_NE(exact.judge(0, wrong, Rounding::sums), "");
  wrong.data<float>()[5] = INFINITY;
  EXPECT_NE(exact.judge(0, wrong, Rounding::winograd), "");
  EXPECT_EQ(exact.judge(0, Tensor(DType::f32, {8}), Rounding::sums), "it is f32[8], expected f64[1x8x6x6] in f32");
}

/// y = sqrt(|(x + 1000) - 1000 - x|) is 0 without rounding. In f32 it may be any small number.
TEST(Exact, FollowsCancellation) {
  SweepNet net(2);
  const ValueId x = net.input({64});
  const ValueId thousand = net.b.constant(Tensor::scalar(1000.0F));
  const ValueId near = net.b.add("Sub", {net.b.add("Sub", {net.b.add("Add", {x, thousand}), thousand}), x});
  net.output(net.b.add("Sqrt", {net.b.add("Abs", {near})}));
  net.output(net.b.add("Exp", {x}));
  Exact exact(net.graph(), net.inputs());
  EXPECT_EQ(exact.judge(0, evaluate(net.graph(), net.inputs()).at(0), Rounding::sums), "");
  Tensor off(DType::f32, {64});
  for (float& v : off.span<float>()) v = 0.1F;
  EXPECT_NE(exact.judge(0, off, Rounding::sums), "");
  Tensor exps = evaluate(net.graph(), net.inputs()).at(1);
  EXPECT_EQ(exact.judge(1, exps, Rounding::sums), "");
  exps.data<float>()[3] *= 1.00001F;  // by 168 u (u = 2^-24)
  EXPECT_NE(exact.judge(1, exps, Rounding::sums), "");
}

TEST(Exact, CastsAndAttributesAreF64) {
  SweepNet net(3);
  net.b.fold_limit = -1;
  const ValueId x = net.input({4});
  const ValueId shape = net.b.constant(Tensor::of<int64_t>({1}, {4}));
  const ValueId third = net.b.add("ConstantOfShape", {shape}, {{"value", Tensor::of<float>({1}, {1.0F / 3})}});
  net.output(net.b.add("Add", {net.b.add("Cast", {x}, {{"to", int64_t{1}}}), third}));
  const Graph graph = in_f64(net.graph());
  for (size_t v = 0; v < graph.value_count(); ++v) EXPECT_NE(graph.type(static_cast<ValueId>(v)).dtype, DType::f32);
  verify(graph);
  const std::vector<Tensor> in{to_f64(net.inputs()[0])};
  const double want = double{net.inputs()[0].data<float>()[2]} + double{1.0F / 3};
  EXPECT_EQ(evaluate(graph, in).at(0).data<double>()[2], want);
}

}  // namespace
}  // namespace kilter
