// Values that are read and replaced while a network runs, and the measures of their differences.
#include "compile/run_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compile/difference.h"
#include "compile/session.h"
#include "graph/text.h"
#include "zoo/zoo.h"

namespace kilter {
namespace {

Loaded loaded(Graph graph, const CompileOptions& options) {
  Loaded made;
  made.compiled = compile_graph(std::move(graph), options);
  made.program = std::make_shared<const Program>(made.compiled.plan);
  made.instance = std::make_unique<Instance>(made.program, std::make_shared<ThreadPool>(1));
  return made;
}

CompileOptions native(Precision precision = Precision::declared) {
  CompileOptions options;
  options.target = parse_target("native");
  options.precision = precision;
  return options;
}

std::vector<Tensor> inputs_of(const Loaded& network) {
  std::vector<Tensor> inputs;
  for (const PlanTensor& t : network.plan().inputs) inputs.push_back(random_input(t.name, t.type, t.shape));
  return inputs;
}

TEST(RunValues, InsertedValuesAreReadBack) {
  for (const Precision precision : kPrecisions) {
    if (precision == Precision::bf16 && !native().target.limits.has_dot(DType::bf16, DType::bf16, 16)) continue;
    Loaded network = loaded(zoo::build("squeezenet1_1", {.size = 64}), native(precision));
    int64_t blocked = 0;
    run_visiting(network, inputs_of(network), [&](const PlacedValue& value, std::byte* buffer) {
      const Tensor replacement = random_input(value.name, DType::f32, value.type.shape, 1);
      insert(value, replacement, buffer);
      const Tensor back = extract(value, buffer);
      const double unit = value.type.layout.stored == DType::bf16  ? 0x1p-8
                          : value.type.layout.stored == DType::f16 ? 0x1p-11
                                                                   : 0;
      for (int64_t i = 0; i < back.elems(); ++i) {
        const double want = replacement.as_double(i);
        ASSERT_LE(std::abs(back.as_double(i) - want), unit * std::abs(want) + (unit > 0 ? 0x1p-25 : 0)) << value.name;
      }
      blocked += value.type.layout.block > 1 ? 1 : 0;
    });
    EXPECT_GT(blocked, 5) << name(precision);
  }
}

TEST(RunValues, EachLayerReadsValuesOfTheOtherPlan) {
  CompileOptions options = native();
  options.debug.naive = true;
  Loaded network = loaded(parse_graph(R"(graph "g" {
    input %x: f32[4]
    %a: f32[4] = Abs@13 "a"(%x)
    %b: f32[4] = Neg@13 "b"(%a)
    %c: f32[4] = Neg@13 "c"(%b)
    output "c" %c
  })"),
                          options);
  const std::vector<Tensor> inputs = {Tensor::of<float>({4}, {1, -2, 3, -4})};
  const RunValues own = values_of(network, inputs);
  ASSERT_EQ(own.made.size(), 3U);
  EXPECT_TRUE(own.outputs.at(0).same(Tensor::of<float>({4}, {1, 2, 3, 4})));
  // The other plan has a wrong %a, which must neither go unnoticed nor spread: only the layer that reads it has a
  // different result.
  const auto alone = values_of_layers_alone(network, inputs,
                                            {{"a", Tensor::of<float>({1, 4}, {9, 9, 9, 9})},
                                             {"b", Tensor::of<float>({4}, {-1, -2, -3, -4})},
                                             {"c", Tensor::of<int32_t>({4}, {7, 7, 7, 7})}});
  EXPECT_TRUE(alone.at("a").same(Tensor::of<float>({4}, {1, 2, 3, 4})));
  EXPECT_TRUE(alone.at("b").same(Tensor::of<float>({4}, {-9, -9, -9, -9})));
  EXPECT_TRUE(alone.at("c").same(Tensor::of<float>({4}, {1, 2, 3, 4})));
}

TEST(RelativeRms, ComparesFiniteElements) {
  const float inf = std::numeric_limits<float>::infinity();
  const auto rms = [](std::initializer_list<float> got, std::initializer_list<float> want) {
    return relative_rms(Tensor::of<float>({std::ssize(got)}, got), Tensor::of<float>({std::ssize(want)}, want));
  };
  EXPECT_EQ(rms({1, 2}, {1, 2}), 0);
  EXPECT_EQ(rms({3, 5}, {3, 4}), 0.2);
  EXPECT_EQ(rms({3, 4, 1}, {3, 4, inf}), 0);
  EXPECT_EQ(rms({3, inf}, {3, 4}), INFINITY);
  EXPECT_EQ(rms({1}, {0}), INFINITY);
}

}  // namespace
}  // namespace kilter
