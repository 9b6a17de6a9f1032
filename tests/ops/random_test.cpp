// Random operators: their draws have the moments that the standard asks for, positions are independent, and the seed
// decides the draws. The standard's own cases contain the draws of another generator.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "../base/error_of.h"
#include "ops/support/builder.h"
#include "ops/support/evaluate.h"

namespace kilter {
namespace {

constexpr int64_t kDraws = 200000;
constexpr double kSigmas = 5;  ///< a correct generator exceeds this once in about two million comparisons

Graph graph_of(std::string_view op, const std::vector<Tensor>& inputs, Attrs attrs, size_t count) {
  Graph graph;
  GraphBuilder builder(graph);
  std::vector<ValueId> ids;
  for (const Tensor& input : inputs) ids.push_back(input.defined() ? builder.constant(input) : kNone);
  GraphBuilder::Options options;
  options.name = "n";
  for (size_t i = 0; i < count; ++i) options.output_names.push_back("out" + std::to_string(i));
  for (const ValueId id : builder.add(op, ids, std::move(attrs), options)) graph.add_output(id, graph.value(id).name);
  return graph;
}
Tensor value_of(std::string_view op, const std::vector<Tensor>& inputs, Attrs attrs) {
  return evaluate(graph_of(op, inputs, std::move(attrs), 1), {})[0];
}
std::vector<double> doubles(const Tensor& tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.elems(); ++i) values.push_back(tensor.as_double(i));
  return values;
}

double mean_of(const std::vector<double>& x) {
  double sum = 0;
  for (double v : x) sum += v;
  return sum / static_cast<double>(x.size());
}
/// Returns the mean of (x[i] - mean) * (x[i + lag] - mean).
double covariance_of(const std::vector<double>& x, double mean, size_t lag) {
  double sum = 0;
  for (size_t i = 0; i + lag < x.size(); ++i) sum += (x[i] - mean) * (x[i + lag] - mean);
  return sum / static_cast<double>(x.size() - lag);
}

/// Checks mean, variance and the correlation of nearby positions. `fourth` is the fourth central moment divided by the
/// square of the variance, which determines how much the variance of a sample varies.
void expect_moments(const std::vector<double>& x, double mean, double variance, double fourth) {
  const auto n = static_cast<double>(x.size());
  EXPECT_NEAR(mean_of(x), mean, kSigmas * std::sqrt(variance / n));
  EXPECT_NEAR(covariance_of(x, mean, 0), variance, kSigmas * variance * std::sqrt((fourth - 1) / n));
  for (size_t lag : {1, 2, 3, 64, 1000}) {
    EXPECT_NEAR(covariance_of(x, mean, lag) / variance, 0, kSigmas / std::sqrt(n)) << "lag " << lag;
  }
}

/// Checks that a seed determines the draws, that a different seed or position gives different draws, and that every run
/// without a seed differs.
void expect_seeded(std::string_view op, const std::vector<Tensor>& inputs, Attrs attrs, const Attr& seed,
                   const Attr& other_seed) {
  SCOPED_TRACE(op);
  const Graph unseeded = graph_of(op, inputs, attrs, 1);
  EXPECT_FALSE(evaluate(unseeded, {})[0].same(evaluate(unseeded, {})[0])) << "two runs without a seed";
  attrs["seed"] = seed;
  const Graph seeded = graph_of(op, inputs, attrs, 1);
  const Tensor draws = evaluate(seeded, {})[0];
  EXPECT_TRUE(draws.same(evaluate(seeded, {})[0])) << "two runs with a seed";
  EXPECT_TRUE(draws.same(value_of(op, inputs, attrs))) << "two nodes with one seed";
  attrs["seed"] = other_seed;
  const Tensor others = value_of(op, inputs, attrs);
  EXPECT_FALSE(draws.same(others)) << "two seeds";
  const std::vector<double> a = doubles(draws);
  const std::vector<double> b = doubles(others);
  const double mean_a = mean_of(a);
  const double mean_b = mean_of(b);
  double together = 0;
  for (size_t i = 0; i < a.size(); ++i) together += (a[i] - mean_a) * (b[i] - mean_b);
  const double scale = std::sqrt(covariance_of(a, mean_a, 0) * covariance_of(b, mean_b, 0));
  const auto n = static_cast<double>(a.size());
  EXPECT_NEAR(together / n / scale, 0, kSigmas / std::sqrt(n)) << "streams of two seeds";
}

Attrs shaped(Attrs attrs) {
  attrs["shape"] = std::vector<int64_t>{kDraws / 100, 100};
  return attrs;
}
Tensor zeros() { return Tensor(DType::f32, {kDraws}); }

TEST(Random, UniformDrawsAreEven) {
  const Attrs attrs = {{"low", -1.0F}, {"high", 3.0F}, {"seed", 1.0F}};
  for (const Tensor& draws :
       {value_of("RandomUniform", {}, shaped(attrs)), value_of("RandomUniformLike", {zeros()}, attrs)}) {
    const std::vector<double> x = doubles(draws);
    expect_moments(x, 1, 16.0 / 12, 1.8);
    const auto [least, most] = std::minmax_element(x.begin(), x.end());
    EXPECT_GE(*least, -1);
    EXPECT_LT(*most, 3);
  }
  expect_seeded("RandomUniform", {}, shaped({}), 1.0F, 2.0F);
  expect_seeded("RandomUniformLike", {zeros()}, {}, 1.0F, 1.5F);
}

TEST(Random, NormalDrawsAreNormal) {
  const Attrs attrs = {{"mean", 2.0F}, {"scale", 0.5F}, {"seed", 1.0F}};
  for (const Tensor& draws :
       {value_of("RandomNormal", {}, shaped(attrs)), value_of("RandomNormalLike", {zeros()}, attrs)}) {
    std::vector<double> x = doubles(draws);
    expect_moments(x, 2, 0.25, 3);
    const auto far = [&](double sigmas) {
      return static_cast<double>(
                 std::count_if(x.begin(), x.end(), [&](double v) { return std::abs(v - 2) > sigmas / 2; })) /
             kDraws;
    };
    EXPECT_NEAR(far(1), 0.317311, kSigmas * std::sqrt(0.317311 * 0.682689 / kDraws));
    EXPECT_NEAR(far(3), 0.002700, kSigmas * std::sqrt(0.0027 / kDraws));
  }
  expect_seeded("RandomNormal", {}, shaped({}), 1.0F, 2.0F);
  expect_seeded("RandomNormalLike", {zeros()}, {}, 3.0F, 4.0F);
}

TEST(Random, BernoulliDrawsOnesWithTheGivenProbability) {
  for (float p : {0.0F, 0.1F, 0.5F, 0.9F, 1.0F}) {
    const Tensor probability = Tensor::of<float>({kDraws}, std::vector<float>(kDraws, p));
    const std::vector<double> x = doubles(value_of("Bernoulli", {probability}, {{"seed", 3.0F}}));
    if (p == 0 || p == 1) {
      EXPECT_EQ(mean_of(x), p);
      continue;
    }
    const double variance = p * (1.0 - p);
    expect_moments(x, p, variance, (1 - 3 * variance) / variance);
  }
  const Tensor half = Tensor::of<float>({kDraws}, std::vector<float>(kDraws, 0.5F));
  expect_seeded("Bernoulli", {half}, {}, 1.0F, 2.0F);
  EXPECT_EQ(value_of("Bernoulli", {half}, {{"dtype", int64_t{9}}}).dtype(), DType::boolean);
}

TEST(Random, MultinomialDrawsClassesWithTheirProbabilities) {
  // Probabilities 0.1, 0.2, 0.7 in row 0, and only class 1 in row 1.
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const Tensor logarithms =
      Tensor::of<float>({2, 3}, {std::log(1.0F) + 90, std::log(2.0F) + 90, std::log(7.0F) + 90, kNever, 0, kNever});
  const Attrs attrs = {{"sample_size", kDraws}, {"seed", 1.0F}};
  const Tensor draws = value_of("Multinomial", {logarithms}, attrs);
  EXPECT_EQ(draws.dtype(), DType::i32);
  ASSERT_EQ(draws.shape(), (Shape{2, kDraws}));
  std::vector<double> x = doubles(draws);
  EXPECT_TRUE(std::all_of(x.begin() + kDraws, x.end(), [](double v) { return v == 1; }));
  x.resize(kDraws);
  const std::vector<double> want = {0.1, 0.2, 0.7};
  for (size_t c = 0; c < want.size(); ++c) {
    const auto share = static_cast<double>(std::count(x.begin(), x.end(), static_cast<double>(c))) / kDraws;
    EXPECT_NEAR(share, want[c], kSigmas * std::sqrt(want[c] * (1 - want[c]) / kDraws));
  }
  expect_moments(x, 1.6, 0.44, 3.6529);
  expect_seeded("Multinomial", {Tensor(DType::f32, {1, 9})}, {{"sample_size", kDraws}}, 1.0F, 2.0F);
}

TEST(Random, MultinomialRefusesInvalidDistributions) {
  const auto error = [](const Tensor& x, Attrs attrs = {}) {
    return error_of([&] { value_of("Multinomial", {x}, std::move(attrs)); });
  };
  const float infinite = std::numeric_limits<float>::infinity();
  EXPECT_EQ(error(Tensor::of<float>({2, 2}, {0, 0, -infinite, -infinite})),
            "Multinomial 'n': row 1 is not a distribution: the logarithms must not be NaN, and the largest one must be "
            "finite");
  EXPECT_EQ(error(Tensor(DType::f32, {2, 0})),
            "Multinomial 'n': input 0 has shape 2x0, expected [batch, classes] with one class or more");
  EXPECT_EQ(error(Tensor(DType::f32, {1, 1}), {{"sample_size", int64_t{0}}}),
            "Multinomial 'n': attribute sample_size is 0; expected 1 or more");
  EXPECT_EQ(error(Tensor(DType::f32, {1, 1}), {{"dtype", int64_t{1}}}),
            "Multinomial 'n': output element type is f32; legal values are i32 and i64");
}

TEST(Random, DropoutKeepsTheExpectedValue) {
  const Tensor ones = Tensor::of<float>({kDraws}, std::vector<float>(kDraws, 1.0F));
  const Tensor on = Tensor::scalar(true);
  for (float ratio : {0.25F, 0.5F, 0.75F}) {
    const std::vector<Tensor> y =
        evaluate(graph_of("Dropout", {ones, Tensor::scalar(ratio), on}, {{"seed", int64_t{4}}}, 2), {});
    const std::vector<double> kept = doubles(y[1]);
    const double variance = ratio * (1.0 - ratio);
    expect_moments(kept, 1 - ratio, variance, (1 - 3 * variance) / variance);
    for (size_t i = 0; i < kept.size(); ++i) {
      ASSERT_EQ(y[0].data<float>()[i], kept[i] != 0 ? 1.0F / (1.0F - ratio) : 0.0F);
    }
  }
  expect_seeded("Dropout", {ones, Tensor::scalar(0.5F), on}, {}, int64_t{1}, int64_t{-2});
}

TEST(Random, DropoutInTrainingModeMayDropNothing) {
  const Tensor x = Tensor::of<float>({3}, {1, -2, 3});
  const Tensor on = Tensor::scalar(true);
  EXPECT_TRUE(value_of("Dropout", {x, Tensor::scalar(0.0F), on}, {}).same(x));
  EXPECT_TRUE(value_of("Dropout", {x, Tensor::scalar(0.5F), Tensor::scalar(false)}, {}).same(x));
  EXPECT_EQ(error_of([&] { value_of("Dropout", {x, Tensor::scalar(1.0F), on}, {}); }, ErrorKind::bad_model),
            "Dropout 'n': ratio (input 1) is 1; expected at least 0 and less than 1");
}

TEST(Random, DropoutReadsModeAndRatioAtRunTime) {
  Graph graph;
  GraphBuilder builder(graph);
  const ValueId x = builder.input("x", DType::f32, {4});
  const ValueId ratio = builder.input("ratio", DType::f32, {});
  const ValueId training = builder.input("training", DType::boolean, {});
  graph.add_output(builder.add("Dropout", {x, ratio, training}, {{"seed", int64_t{1}}}, "n"), "y");
  const Tensor value = Tensor::of<float>({4}, {1, 2, 3, 4});
  const auto run = [&](float r, bool on) { return evaluate(graph, {value, Tensor::scalar(r), Tensor::scalar(on)})[0]; };
  EXPECT_TRUE(run(0.5F, false).same(value));
  EXPECT_TRUE(run(0, true).same(value));
  const Tensor dropped = run(0.5F, true);
  for (int64_t i = 0; i < 4; ++i) {
    const float y = dropped.data<float>()[i];
    EXPECT_TRUE(y == 0 || y == 2 * value.data<float>()[i]) << y;
  }
}

}  // namespace
}  // namespace kilter
