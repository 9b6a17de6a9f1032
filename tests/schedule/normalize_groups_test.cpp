// Normalisations over groups of channels: defaults, rejections, groups with a large mean, and blocked layouts that are
// kept between convolutions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "../base/error_of.h"
#include "base/random.h"
#include "compile/compile.h"
#include "compile/session.h"
#include "ops/support/builder.h"
#include "ops/support/cases.h"
#include "ops/support/evaluate.h"

namespace kilter {
namespace {

/// Conv 1x1, GroupNormalization "norm", SiLU, Conv 1x1: part of a diffusion network.
struct Net {
  Net(const Shape& x, int64_t channels, int64_t groups, float shift = 0) {
    GraphBuilder b(graph);
    b.fold_limit = -1;
    const ValueId in = b.input("x", DType::f32, x);
    const ValueId v = b.add("Conv", {in, weights(b, {channels, x[1], 1, 1}), bias(b, channels, shift)}, {}, "before");
    const ValueId n =
        b.add("GroupNormalization", {v, bias(b, channels, 1), bias(b, channels, 0)}, {{"num_groups", groups}}, "norm");
    const ValueId s = b.add("Mul", {n, b.add("Sigmoid", {n})}, {}, "silu");
    graph.add_output(b.add("Conv", {s, weights(b, {8, channels, 1, 1})}, {}, "after"), "y");
    input = drawn(x, 1);
  }

  static Tensor drawn(const Shape& shape, float scale) {
    Tensor t(DType::f32, shape);
    Random(7).fill_normal(t.span<float>(), scale);
    return t;
  }
  static ValueId weights(GraphBuilder& b, const Shape& shape) {
    return b.constant(drawn(shape, 1 / std::sqrt(static_cast<float>(shape[1]))));
  }
  static ValueId bias(GraphBuilder& b, int64_t channels, float mean) {
    Tensor t = drawn({channels}, 0.2F);
    for (float& v : t.span<float>()) v += mean;
    return b.constant(t);
  }

  Graph graph;
  Tensor input;
};

Compiled compiled(const Graph& graph, const std::string& target, const std::string& schedule = "") {
  CompileOptions options;
  options.target = parse_target(target);
  options.contents.code = false;
  if (!schedule.empty()) options.choices["norm"].schedule = parse_schedule(schedule);
  return compile_graph(graph, options);
}

std::vector<std::string> steps(const Compiled& c) {
  std::vector<std::string> all;
  for (const Step& step : c.plan.steps) all.push_back(step.ops + " | " + step.schedule);
  return all;
}

Tensor run(const Net& net, const std::string& target, const std::string& schedule, int threads) {
  CompileOptions options;
  options.target = parse_target(target);
  if (!schedule.empty()) options.choices["norm"].schedule = parse_schedule(schedule);
  const auto program = std::make_shared<const Program>(std::move(compile_graph(net.graph, options).plan));
  Loaded loaded{program, std::make_unique<Instance>(program, std::make_shared<ThreadPool>(threads)), {}};
  return run_plan(loaded, {net.input}).at(0);
}

TEST(NormalizeGroups, StaysInBlocksBetweenConvolutions) {
  const Net net({1, 16, 64, 64}, 320, 32);
  const std::vector<std::string> all = steps(compiled(net.graph, "znver4"));
  ASSERT_EQ(all.size(), 6U) << "Relayout in, two convolutions, two stages, Relayout out";
  EXPECT_EQ(all[2], "GroupNormalization+Swish | normalize_groups joint=0 parts=1");
  EXPECT_EQ(all[3], "GroupNormalization+Swish | normalize_groups joint=0 parts=1");
}

TEST(NormalizeGroups, DefaultsFollowGroupsAndCaches) {
  const auto norm = [](const Shape& x, int64_t channels, int64_t groups) {
    return steps(compiled(Net(x, channels, groups).graph, "znver4")).at(2);
  };
  // A block of channels is one group and fits in L2.
  EXPECT_EQ(norm({1, 16, 32, 32}, 512, 32), "GroupNormalization+Swish | normalize_groups joint=1 parts=1");
  // There are only two blocks of channels; 8 parts of each make 16 work items.
  EXPECT_EQ(norm({1, 16, 64, 64}, 32, 8), "GroupNormalization+Swish | normalize_groups joint=0 parts=8");
}

TEST(NormalizeGroups, ExactForALargeMean) {
  const Net net({1, 8, 23, 40}, 24, 4, 300);
  const Tensor want = evaluate(net.graph, {net.input}).at(0);
  for (const char* target : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    if (!runs_here(parse_target(target))) continue;
    for (const char* schedule : {"", "normalize_groups joint=1 parts=1", "normalize_groups joint=0 parts=1",
                                 "normalize_groups joint=0 parts=8"}) {
      // The convolution rounds values near 300 to 1.5e-5; the normalisation must add hardly any error.
      const auto difference = compare(run(net, target, schedule, 1), want, {.rtol = 1e-3, .atol = 2e-4});
      EXPECT_FALSE(difference.has_value()) << target << " " << schedule << ": " << *difference;
    }
  }
}

TEST(NormalizeGroups, SameBitsForAnyNumberOfThreads) {
  const Net net({2, 3, 37, 29}, 40, 4);
  for (const char* schedule : {"normalize_groups joint=1 parts=1", "normalize_groups joint=0 parts=4"}) {
    const Tensor one = run(net, "native", schedule, 1);
    for (const int threads : {2, 3, 7}) {
      const Tensor many = run(net, "native", schedule, threads);
      EXPECT_EQ(std::memcmp(one.raw(), many.raw(), static_cast<size_t>(one.bytes())), 0) << schedule << " " << threads;
    }
  }
}

std::string refusal(const std::string& schedule, int64_t groups = 4) {
  return error_of([&] { compiled(Net({1, 8, 6, 6}, 32, groups).graph, "x86-64-v3", schedule); });
}

TEST(NormalizeGroups, RefusalsSayTheLimitAndWhatWasFound) {
  EXPECT_EQ(refusal("normalize_groups joint=1 parts=2"),
            "--schedule norm: 'normalize_groups joint=1 parts=2' does not apply: parts of the rows with joint=1: limit "
            "1, got 2");
  EXPECT_EQ(
      refusal("normalize_groups joint=0 parts=3"),
      "--schedule norm: 'normalize_groups joint=0 parts=3' does not apply: normalize_groups knob parts: limit one "
      "of 1, 2, 4, got 3");
  EXPECT_EQ(refusal("normalize_rows unroll=4"),
            "--schedule norm: 'normalize_rows unroll=4' does not apply: operator: limit LayerNormalization, "
            "RMSNormalization, InstanceNormalization, got GroupNormalization");
}

}  // namespace
}  // namespace kilter
