#include <gtest/gtest.h>

#include "ops/support/evaluate.h"
#include "pass_runner.h"

namespace kilter {
namespace {

const Tensor& constant(const Graph& graph, std::string_view name) {
  return *graph.value(graph.find_value(name)).constant;
}

/// Compares a network's results before and after the pass, for one fixed input of shape x and `others`.
void expect_same_answers(std::string_view text, const Shape& x, const std::vector<Tensor>& others = {}) {
  Graph graph = parse_graph(text);
  Tensor input(DType::f32, x);
  for (int64_t i = 0; i < input.elems(); ++i) input.data<float>()[i] = static_cast<float>(i * 7 % 11 - 5) / 4;
  std::vector<Tensor> inputs{input};
  inputs.insert(inputs.end(), others.begin(), others.end());
  const std::vector<Tensor> want = evaluate(graph, inputs);
  EXPECT_EQ(run_pass(split_recurrent, graph), 1);
  const std::vector<Tensor> got = evaluate(graph, inputs);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(compare(got[i], want[i], {1e-5, 1e-6, true}), std::nullopt) << i;
}

TEST(SplitRecurrent, InputProductIncludesBothBiases) {
  const std::string_view text = R"(graph "g" {
    input %x: f32[3,2,1]
    input %h: f32[1,2,1]
    const %w: f32[1,4,1](1, 2, 3, 4)
    const %r: f32[1,4,1](5, 6, 7, 8)
    const %b: f32[1,8](1, 2, 3, 4, 10, 20, 30, 40)
    %y: f32[3,1,2,1], %last: f32[1,2,1] = LSTM@14 "lstm" {direction="reverse", hidden_size=1}(%x, %w, %r, %b, _, %h)
    output "y" %y
    output "last" %last
  })";
  EXPECT_EQ(after(split_recurrent, text),
            "%lstm.input.rows: f32[6,1] = Reshape@28 \"lstm.input.rows\"(%x, %const)\n"
            "%lstm.input: f32[6,4] = Gemm@28 \"lstm.input\" {transB=1}(%lstm.input.rows, %w_1, %lstm.input.bias)\n"
            "%lstm.input.steps: f32[3,2,4] = Reshape@28 \"lstm.input.steps\"(%lstm.input, %const_1)\n"
            "%y: f32[3,1,2,1], %last: f32[1,2,1] = kilter::LSTMSteps@1 \"lstm\" {direction=\"reverse\"}"
            "(%lstm.input.steps, %r, %h, _, _)\n"
            "output \"y\" %y\n"
            "output \"last\" %last\n");
  Graph graph = parse_graph(text);
  EXPECT_EQ(run_pass(split_recurrent, graph), 1);
  EXPECT_TRUE(constant(graph, "lstm.input.bias").same(Tensor::of<float>({4}, {11, 22, 33, 44})));
}

TEST(SplitRecurrent, ResultsAreUnchanged) {
  expect_same_answers(R"(graph "g" {
    input %x: f32[3,2,2]
    const %w: f32[2,2,2](0.5, -0.25, 1, 0.125, -1, 0.75, 0.5, 0.25)
    const %r: f32[2,2,2](0.25, 0.5, -0.5, 1, 0.75, -0.25, 0.5, 0.125)
    const %b: f32[2,4](0.1, 0.2, 0.3, 0.4, -0.1, -0.2, -0.3, -0.4)
    %y: f32[3,2,2,2] = RNN@14 "rnn" {direction="bidirectional"}(%x, %w, %r, %b)
    output "y" %y
  })",
                      {3, 2, 2});
  expect_same_answers(R"(graph "g" {
    input %x: f32[2,3,1]
    const %w: f32[1,3,1](0.5, -0.25, 1)
    const %r: f32[1,3,1](0.25, 0.5, -0.5)
    const %b: f32[1,6](0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
    _, %last: f32[2,1,1] = GRU@14 "gru" {layout=1, linear_before_reset=1}(%x, %w, %r, %b)
    output "last" %last
  })",
                      {2, 3, 1});
  expect_same_answers(R"(graph "g" {
    input %x: f32[3,2,1]
    input %n: i32[2]
    const %w: f32[1,4,1](0.5, -0.25, 1, 0.75)
    const %r: f32[1,4,1](0.25, 0.5, -0.5, 1)
    %y: f32[3,1,2,1], %h: f32[1,2,1], %c: f32[1,2,1] = LSTM@14 "lstm" {direction="reverse"}(%x, %w, %r, _, %n)
    output "y" %y
    output "h" %h
    output "c" %c
  })",
                      {3, 2, 1}, {Tensor::of<int32_t>({2}, {1, 3})});
}

TEST(SplitRecurrent, TheHiddenBiasOfALinearResetStaysWithTheRecurrence) {
  const std::string_view text = R"(graph "g" {
    input %x: f32[3,2,1]
    const %w: f32[1,3,1](1, 2, 3)
    const %r: f32[1,3,1](5, 6, 7)
    const %b: f32[1,6](1, 2, 3, 10, 20, 30)
    %y: f32[3,1,2,1] = GRU@14 "gru" {linear_before_reset=1}(%x, %w, %r, %b)
    output "y" %y
  })";
  EXPECT_EQ(after(split_recurrent, text),
            "%gru.input.rows: f32[6,1] = Reshape@28 \"gru.input.rows\"(%x, %const)\n"
            "%gru.input: f32[6,3] = Gemm@28 \"gru.input\" {transB=1}(%gru.input.rows, %w_1, %gru.input.bias)\n"
            "%gru.input.steps: f32[3,2,3] = Reshape@28 \"gru.input.steps\"(%gru.input, %const_1)\n"
            "%y: f32[3,1,2,1] = kilter::GRUSteps@1 \"gru\" {linear_before_reset=1}"
            "(%gru.input.steps, %r, _, %gru.hidden_bias)\n"
            "output \"y\" %y\n");
  Graph graph = parse_graph(text);
  EXPECT_EQ(run_pass(split_recurrent, graph), 1);
  EXPECT_TRUE(constant(graph, "gru.input.bias").same(Tensor::of<float>({3}, {11, 22, 3})));
  EXPECT_TRUE(constant(graph, "gru.hidden_bias").same(Tensor::of<float>({1, 1}, {30})));
}

/// An RNN with one unit over three steps of two sequences; `operands` follow x.
std::string rnn(std::string_view more, std::string_view operands) {
  return fmt::format(R"(graph "g" {{
    input %x: f32[3,2,1]
    {}
    %y: f32[3,1,2,1] = RNN@14 "rnn"(%x, {})
    output "y" %y
  }})",
                     more, operands);
}

TEST(SplitRecurrent, LengthsStayWithTheRecurrenceUnlessTheyAreAllSteps) {
  const std::string weights = "const %w: f32[1,1,1](2)\nconst %r: f32[1,1,1](3)\n";
  EXPECT_EQ(after(split_recurrent, rnn(weights + "const %n: i32[2](3, 3)", "%w, %r, _, %n")),
            "%rnn.input.rows: f32[6,1] = Reshape@28 \"rnn.input.rows\"(%x, %const)\n"
            "%rnn.input: f32[6,1] = Gemm@28 \"rnn.input\" {transB=1}(%rnn.input.rows, %w_1)\n"
            "%rnn.input.steps: f32[3,2,1] = Reshape@28 \"rnn.input.steps\"(%rnn.input, %const_1)\n"
            "%y: f32[3,1,2,1] = kilter::RNNSteps@1 \"rnn\"(%rnn.input.steps, %r, _)\n"
            "output \"y\" %y\n");
  for (const std::string_view lengths : {"const %n: i32[2](3, 2)", "input %n: i32[2]"}) {
    const std::string text = after(split_recurrent, rnn(weights + std::string(lengths), "%w, %r, _, %n"));
    EXPECT_NE(text.find("kilter::RNNSteps@1 \"rnn\"(%rnn.input.steps, %r, _, %n)"), std::string::npos) << text;
  }
  const std::string longer = rnn(weights + "const %n: i32[2](3, 4)", "%w, %r, _, %n");
  EXPECT_EQ(unchanged(split_recurrent, longer), "");
}

TEST(SplitRecurrent, NodesWithComputedWeightsAreUnchanged) {
  EXPECT_EQ(unchanged(split_recurrent, rnn("input %w: f32[1,1,1]\nconst %r: f32[1,1,1](3)", "%w, %r")), "");
  EXPECT_EQ(unchanged(split_recurrent, rnn("const %w: f32[1,1,1](3)\ninput %r: f32[1,1,1]", "%w, %r")), "");
  const std::string weights = "const %w: f32[1,1,1](2)\nconst %r: f32[1,1,1](3)\n";
  EXPECT_EQ(unchanged(split_recurrent, rnn(weights + "input %b: f32[1,2]", "%w, %r, %b")), "");
}

}  // namespace
}  // namespace kilter
