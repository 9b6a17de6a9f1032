// The choice of the layers that stay in f32, for given errors and on small networks.
#include "mixed_precision/choose.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "compile/memory_model.h"
#include "graph/text.h"
#include "ops/support/builder.h"

namespace kilter::mixed {
namespace {

using Names = std::set<std::string>;

LayerCost layer(const std::string& name, double error, double gain_ms) {
  return {name, "Conv", {name}, error, 1 + gain_ms, 1};
}

TEST(LayersToKeep, NoneIfTheTotalErrorIsWithinTheTolerance) {
  const std::vector<LayerCost> layers = {layer("a", 3e-3, 1), layer("b", 4e-3, 1)};
  EXPECT_EQ(layers_to_keep(layers, 1, 6e-3), Names{});
  EXPECT_NE(layers_to_keep(layers, 2, 6e-3), Names{}) << "the scale multiplies the errors";
}

TEST(LayersToKeep, PrefersTheMostErrorPerTime) {
  const std::vector<LayerCost> layers = {layer("slow", 4e-3, 1), layer("cheap", 4e-3, 0.1), layer("small", 1e-4, 0.1)};
  EXPECT_EQ(layers_to_keep(layers, 1, 5e-3), Names{"cheap"});
  EXPECT_EQ(layers_to_keep(layers, 1, 1e-3), (Names{"cheap", "slow"}));
}

TEST(LayersToKeep, DropsLayersThatBecomeUnnecessary) {
  // The order is that of error per time: a, then b, although b alone is enough.
  const std::vector<LayerCost> layers = {layer("a", 1e-3, 0.001), layer("b", 1e-1, 11)};
  EXPECT_EQ(layers_to_keep(layers, 1, 2e-3), Names{"b"});
}

TEST(LayersToKeep, WorstFirstKeepsTheFewest) {
  const std::vector<LayerCost> layers = {layer("worst", 5e-3, 9), layer("a", 3e-3, 0.01), layer("b", 3e-3, 0.01),
                                         layer("c", 3e-3, 0.01)};
  EXPECT_EQ(layers_to_keep(layers, 1, 6e-3), (Names{"a", "b", "c"}));
  EXPECT_EQ(layers_to_keep(layers, 1, 6e-3, KeepFirst::worst), Names{"worst"});
}

TEST(LayersToKeep, SkipsLayersWithoutModelNodes) {
  std::vector<LayerCost> layers = {layer("copy", 1e-2, 1), layer("a", 1e-3, 1)};
  layers[0].nodes.clear();
  EXPECT_EQ(layers_to_keep(layers, 1, 5e-3), Names{"a"});
}

TEST(LayersToKeep, KeepsLayersThatOverflow) {
  const std::vector<LayerCost> layers = {layer("a", INFINITY, 1), layer("b", 1e-3, 1)};
  EXPECT_EQ(layers_to_keep(layers, 1, 5e-3), Names{"a"});
}

TEST(Error, IsRelativeToTheLargestMagnitudeOfEachOutput) {
  const auto f = [](std::initializer_list<float> values) { return Tensor::of<float>({std::ssize(values)}, values); };
  EXPECT_EQ(error({f({1, 2}), f({100})}, {f({1, 2}), f({100})}), 0);
  EXPECT_EQ(error({f({1, 3}), f({100})}, {f({1, 4}), f({100})}), 0.25);
  EXPECT_EQ(error({f({1, 4}), f({100})}, {f({1, 4}), f({50})}), 1);
  EXPECT_EQ(error({Tensor::of<int64_t>({1}, {7}), f({4})}, {Tensor::of<int64_t>({1}, {8}), f({4})}), 0);
  EXPECT_EQ(error({f({std::numeric_limits<float>::infinity()})}, {f({1})}), INFINITY);
}

/// Four convolutions. The difference of the first two is 1/64 of either, so that their errors count 64 times as much as
/// those of the other two.
Graph sensitive_network() {
  Graph graph;
  graph.name = "sensitive";
  GraphBuilder b(graph);
  Tensor w(DType::f32, {16, 16, 3, 3}), close(DType::f32, {16, 16, 3, 3});
  const Tensor random = random_input("w", DType::f32, w.shape());
  for (int64_t i = 0; i < w.elems(); ++i) {
    w.data<float>()[i] = random.data<float>()[i] / 12;
    close.data<float>()[i] = w.data<float>()[i] * (1 + 1.0F / 64);
  }
  const Attrs same = {{"pads", std::vector<int64_t>{1, 1, 1, 1}}};
  const ValueId x = b.input("x", DType::f32, {1, 16, 16, 16});
  const ValueId one = b.add("Conv", {x, b.constant(w)}, same, "one"),
                two = b.add("Conv", {x, b.constant(close)}, same, "two");
  const ValueId third = b.add("Conv", {b.add("Sub", {two, one}, {}, "difference"), b.constant(w)}, same, "third");
  graph.add_output(b.add("Conv", {third, b.constant(w)}, same, "fourth"), "y");
  return graph;
}

Request request(const MemoryModel& model, double tolerance) {
  Request made;
  made.model = model.name();
  made.session.compile.target = parse_target("native");
  made.session.threads = 1;
  made.tolerance = tolerance;
  for (uint64_t seed = 0; seed < 2; ++seed)
    made.samples.push_back({{"x", random_input("x", DType::f32, {1, 16, 16, 16}, seed)}});
  made.seconds = 0.2;
  return made;
}

const Gear& fp16_of(const Result& result) {
  return *std::ranges::find(result.gears, Precision::fp16, &Gear::precision);
}
double error_of(const Gear& gear, const std::string& layer) {
  const auto found = std::ranges::find(gear.layers, layer, &LayerCost::layer);
  return found == gear.layers.end() ? -1 : found->error;
}

class MixedPrecision : public testing::Test {
 protected:
  void SetUp() override {
    if (!parse_target("native").limits.f16_convert) GTEST_SKIP() << "this CPU has no instruction that converts f16";
  }
  MemoryModel model_{std::make_shared<const Graph>(sensitive_network())};
};

TEST_F(MixedPrecision, KeepsTheSensitiveLayersInF32) {
  const Result result = choose_precision(request(model_, 5e-3));
  const Gear& gear = fp16_of(result);
  EXPECT_GT(error_of(gear, "one") + error_of(gear, "two"), 20 * error_of(gear, "third"));
  EXPECT_GT(error_of(gear, "third"), 1e-5);
  const auto whole = std::ranges::find(result.mixes, Precision::fp16, &Mix::precision);
  ASSERT_NE(whole, result.mixes.end());
  EXPECT_FALSE(whole->within);
  const auto mix =
      std::find_if(whole + 1, result.mixes.end(), [](const Mix& m) { return m.precision == Precision::fp16; });
  ASSERT_NE(mix, result.mixes.end());
  EXPECT_TRUE(mix->within);
  EXPECT_LE(mix->error, 5e-3);
  EXPECT_LT(mix->kept, mix->layers);
  EXPECT_TRUE(mix->keep_float.contains("one") || mix->keep_float.contains("two"));
  EXPECT_FALSE(mix->keep_float.contains("fourth"));
  EXPECT_TRUE(result.mixes[result.chosen].within);
}

TEST_F(MixedPrecision, KeepsNothingIfTheWholeNetworkIsWithinTheTolerance) {
  const Result result = choose_precision(request(model_, 0.5));
  EXPECT_EQ(std::ranges::count(result.mixes, Precision::fp16, &Mix::precision), 1);
  EXPECT_TRUE(fp16_of(result).kept.empty());
  EXPECT_FALSE(fp16_of(result).layers.empty()) << "the contributions are told all the same";
}

TEST_F(MixedPrecision, ErrorNamesTheBestReachedError) {
  try {
    choose_precision(request(model_, 1e-12));
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    const std::string begin =
        "--tolerance 1e-12: no mix of f32 with bf16 or fp16 stays within it on these samples; the best reached is ";
    EXPECT_EQ(e.message().substr(0, begin.size()), begin);
    EXPECT_LT(std::stod(e.message().substr(begin.size())), 5e-3) << "far below the error of the whole network";
    EXPECT_EQ(e.message().substr(e.message().find(". Give")),
              ". Give a larger tolerance, or leave the network in f32 (--precision declared)");
  }
}

TEST_F(MixedPrecision, SaysWhyATargetHasNoNarrowPrecision) {
  Request old = request(model_, 1e-2);
  old.session.compile.target = parse_target("x86-64-v2");
  try {
    choose_precision(old);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_TRUE(e.message().starts_with("--precision bf16: target 'x86-64-v2' has no instruction that multiplies bf16"))
        << e.message();
  }
}

}  // namespace
}  // namespace kilter::mixed
