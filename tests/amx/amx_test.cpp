// Convolutions, matrix products and attention with tile registers: exact results of whole numbers and of integers on
// random layers with random schedules, and whole networks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/cpu_info.h"
#include "codegen/backend.h"
#include "compile/placed_tasks.h"
#include "guarded_run.h"
#include "narrow_layers.h"
#include "ops/support/evaluate.h"
#include "schedule/problem/problem.h"
#include "support/amx_emulator.h"
#include "zoo/zoo.h"

namespace kilter {
namespace {

/// A target with AMX for which this machine has all other extensions, or nullopt.
const std::optional<Target>& tile_target() {
  static const std::optional<Target> kTarget = [] {
    std::optional<Target> target = parse_target("llvm -mcpu=sapphirerapids -mattr=-avx512fp16");
    std::vector<std::string> others = features_used(*target);
    std::erase_if(others, [](const std::string& f) { return f.starts_with("amx-"); });
    if (!missing_cpu_features(others).empty()) target.reset();
    testing::provide_amx();
    return target;
  }();
  return kTarget;
}

/// Returns the plan as a program. The machine or the emulator provides the tile registers that it needs.
std::shared_ptr<const Program> program_of(Plan plan) {
  std::erase_if(plan.required_features, [](const std::string& f) { return f.starts_with("amx-"); });
  return std::make_shared<const Program>(std::move(plan));
}

/// Draws a point of the space that the template can lower; if a few draws find none, returns the template's own best.
Schedule draw_schedule(const Analysed& analysed, std::string_view name, Draw& draw) {
  for (int tries = 0; tries < 30; ++tries) {
    Schedule schedule{std::string(name), {}};
    for (const Knob& knob : analysed.space())
      schedule.knobs.emplace_back(knob.name,
                                  knob.values[static_cast<size_t>(draw.between(0, std::ssize(knob.values) - 1))]);
    if (analysed.estimate(schedule)) return schedule;
  }
  return rank(analysed, 1).at(0).schedule;
}

/// Forces a random schedule with tile registers on every task that accepts one. Returns the number of such tasks.
int64_t force_tiles(const Graph& graph, CompileOptions& options, Draw& draw) {
  options.contents.tasks = true;
  const Compiled compiled = compile_graph(graph, options);
  options.contents.tasks = false;
  int64_t forced = 0;
  for (const TaskEntry& entry : compiled.tasks->tasks) {
    if (entry.kind != TaskEntry::kernel) continue;
    const Task task = compiled.tasks->task(entry);
    for (const char* name : {"conv2d_amx", "conv2d_plain_amx", "matmul_amx", "attention_amx"}) {
      const auto analysed = find_template(name)->analyse(task, options.target.limits);
      if (!analysed) continue;
      options.choices[task.node().name].schedule = draw_schedule(**analysed, name, draw);
      ++forced;
    }
  }
  return forced;
}

struct LayerKind {
  const char* name;
  void (*make)(Layer&);
  double tolerance = 0;
};
class AmxLayers : public ::testing::TestWithParam<LayerKind> {
 protected:
  static Tolerance tolerance() {
    return {.rtol = 2 * GetParam().tolerance, .atol = GetParam().tolerance, .scaled = false};
  }
};

TEST_P(AmxLayers, WholeNumbersGiveExactResults) {
  if (!tile_target()) GTEST_SKIP() << "the machine lacks an extension other than AMX";
  int64_t with_tiles = 0;
  for (uint64_t seed = 0; seed < 80; ++seed) {
    Layer l(seed);
    GetParam().make(l);
    CompileOptions options;
    options.target = *tile_target();
    options.precision = Precision::bf16;
    options.accuracy = Accuracy::strict;
    with_tiles += force_tiles(l.net.graph(), options, l.net.draw);
    const Compiled compiled = compile_graph(l.net.graph(), options);
    const std::vector<Tensor> want = evaluate(l.net.graph(), l.inputs);
    const std::string wrong = run_guarded(program_of(compiled.plan), l.inputs, want, tolerance(), seed % 3 * 4);
    ASSERT_EQ(wrong, "") << "seed " << seed << "\n" << steps_text(compiled.plan);
  }
  EXPECT_GT(with_tiles, 40) << "most layers can use tile registers";
}

/// The interpreter runs the same kernels, after the same passes.
TEST_P(AmxLayers, InterpretedKernelsGiveTheSameResults) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Layer l(seed);
    GetParam().make(l);
    CompileOptions options;
    options.target = parse_target("null -mcpu=sapphirerapids");
    options.precision = Precision::bf16;
    options.accuracy = Accuracy::strict;
    force_tiles(l.net.graph(), options, l.net.draw);
    const Compiled compiled = compile_graph(l.net.graph(), options);
    const std::vector<Tensor> want = evaluate(l.net.graph(), l.inputs);
    const std::vector<Tensor> got = run_on(program_of(compiled.plan), l.inputs, 1);
    ASSERT_EQ(compare(got.at(0), want.at(0), tolerance()).value_or(""), "") << "seed " << seed << "\n"
                                                                            << steps_text(compiled.plan);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, AmxLayers,
                         ::testing::Values(LayerKind{"Conv", make_conv}, LayerKind{"MatMul", make_product},
                                           LayerKind{"Attention", make_attention, 1e-6}),
                         [](const auto& kind) { return kind.param.name; });

/// Integers from `low` to `high`, stored in the low bytes of the elements or as f32.
Tensor integers(Draw& draw, DType type, const Shape& shape, int64_t low, int64_t high) {
  Tensor out(type, shape);
  for (int64_t i = 0; i < out.elems(); ++i) {
    const int64_t value = draw.between(low, high);
    type == DType::f32 ? void(out.data<float>()[i] = static_cast<float>(value))
                       : void(out.raw()[i] = static_cast<std::byte>(value));
  }
  return out;
}

/// Runs a network of quantised values %q, which are %x after subtracting the zero point, and weights %w, with random
/// schedules that use tile registers. Returns the number of tasks that do.
int64_t expect_exact(const std::string& nodes, const Shape& codes, const Shape& weights, Draw& draw) {
  const int64_t zero = draw.pick({0, 1, 128, 255});
  const std::string network = network_of_codes(nodes, codes, weights, zero);
  const Graph graph = parse_graph(network, {{"w", integers(draw, DType::f32, weights, -128, 127)}});
  const std::vector<Tensor> inputs{integers(draw, DType::u8, codes, 0, 255)};
  CompileOptions options;
  options.target = *tile_target();
  const int64_t forced = force_tiles(graph, options, draw);
  const Compiled compiled = compile_graph(graph, options);
  const auto program = program_of(compiled.plan);
  EXPECT_EQ(run_guarded(program, inputs, evaluate(graph, inputs), Tolerance{0, 0}, 8), "")
      << network << steps_text(compiled.plan);
  EXPECT_EQ(check_padding(compiled, program, inputs), "") << network << steps_text(compiled.plan);
  return forced;
}

TEST(AmxIntegers, ProductsAreExact) {
  if (!tile_target()) GTEST_SKIP() << "the machine lacks an extension other than AMX";
  int64_t forced = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Draw draw(seed);
    const int64_t m = draw.between(1, 70), k = draw.pick({1, 3, 4, 33, 64, 65, 130, 1030}), n = draw.between(1, 70);
    forced += expect_exact(fmt::format(R"(%y: i32[{},{}] = kilter::IntegerMatMul@1 "y"(%x, %w))", m, n), {m, k}, {k, n},
                           draw);
  }
  EXPECT_GT(forced, 20);
}

TEST(AmxIntegers, ConvolutionsAreExact) {
  if (!tile_target()) GTEST_SKIP() << "the machine lacks an extension other than AMX";
  int64_t forced = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Draw draw(seed);
    const int64_t groups = draw.chance(20) ? 2 : 1, n = draw.between(1, 2);
    const int64_t in = draw.pick({7, 17, 32, 48, 64, 100, 130}) * groups,
                  out = draw.pick({16, 19, 32, 48, 80}) * groups;
    const int64_t r = draw.between(1, 3), s = draw.between(1, 3), step = draw.between(1, 3), gap = draw.between(1, 2);
    const int64_t pad = draw.between(0, 1), h = draw.between(6, 13), w = draw.between(6, 40);
    const int64_t y_h = (h + 2 * pad - (r - 1) * gap - 1) / step + 1,
                  y_w = (w + 2 * pad - (s - 1) * gap - 1) / step + 1;
    forced += expect_exact(
        fmt::format(R"(%y: i32[{0},{1},{2},{3}] = kilter::IntegerConv@1 "y" {{dilations=[{4}, {4}], group={5}, )"
                    R"(pads=[{6}, {6}, {6}, {6}], strides=[{7}, {7}]}}(%x, %w))",
                    n, out, y_h, y_w, gap, groups, pad, step),
        {n, in, h, w}, {out, in / groups, r, s}, draw);
  }
  EXPECT_GT(forced, 40);
}

TEST(AmxIntegers, ConvolutionsOfPlainImagesAreExact) {
  if (!tile_target()) GTEST_SKIP() << "the machine lacks an extension other than AMX";
  int64_t forced = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Draw draw(seed);
    const int64_t n = draw.between(1, 2), in = draw.between(1, 4), out = draw.pick({16, 19, 32, 48, 80});
    const int64_t r = draw.between(1, 5), s = draw.pick({1, 2, 3, 5, 7, 17}), step = draw.between(1, 3);
    const int64_t gap = draw.between(1, 2), pad = draw.between(0, 1), h = draw.between(10, 15),
                  w = draw.between(18, 50);
    const int64_t y_h = (h + 2 * pad - (r - 1) * gap - 1) / step + 1, y_w = (w + 2 * pad - s) / step + 1;
    forced += expect_exact(fmt::format(R"(%y: i32[{0},{1},{2},{3}] = kilter::IntegerConv@1 "y" {{dilations=[{4}, 1], )"
                                       R"(pads=[{5}, {5}, {5}, {5}], strides=[{6}, {6}]}}(%x, %w))",
                                       n, out, y_h, y_w, gap, pad, step),
                           {n, in, h, w}, {out, in, r, s}, draw);
  }
  EXPECT_GT(forced, 30);
}

/// The number of steps of a plan whose default schedule uses tile registers.
int64_t steps_with_tiles(const Plan& plan) {
  return std::ranges::count_if(
      plan.steps, [](const Step& s) { return s.schedule.substr(0, s.schedule.find(' ')).ends_with("_amx"); });
}

TEST(AmxAttention, ScoresOfABlockFitInL2) {
  const auto schedule = [](int64_t keys) {
    Problem problem = parse_problem(
        fmt::format("fusedattention(f32:bf16[1,1,64,32] f32:bf16[1,1,{0},32] f32:bf16[1,1,{0},32]) >bf16", keys));
    CompileOptions options;
    options.target = parse_target("sapphirerapids");
    options.contents.code = false;
    apply(problem, options);
    for (const Step& step : compile_graph(std::move(problem.graph), options).plan.steps) {
      if (step.schedule.starts_with("attention")) return step.schedule;
    }
    return std::string("none");
  };
  EXPECT_EQ(schedule(4096), "attention_amx tiles=2");
  EXPECT_EQ(schedule(4128), "attention_amx tiles=1");
  EXPECT_TRUE(schedule(8224).starts_with("attention_rows ")) << schedule(8224);
}

TEST(AmxNetworks, InBf16DeviateByRoundingOnly) {
  if (!tile_target()) GTEST_SKIP() << "the machine lacks an extension other than AMX";
  for (const char* name : {"resnet18", "mobilenet_v2", "bert_base"}) {
    const Graph graph = zoo::build(name, {.size = std::string_view(name) == "bert_base" ? 32 : 64});
    std::vector<Tensor> inputs;
    Draw draw(7);
    for (const ValueId v : graph.inputs()) inputs.push_back(draw.tensor(graph.type(v).shape));
    CompileOptions options;
    options.target = native_target();
    const Tensor want = run_on(program_of(compile_graph(graph, options).plan), inputs, 1).at(0);
    options.target = *tile_target();
    options.precision = Precision::bf16;
    Plan plan = compile_graph(graph, options).plan;
    EXPECT_GE(steps_with_tiles(plan), 5) << name << steps_text(plan);
    const double error = difference(run_on(program_of(std::move(plan)), inputs, 2).at(0), want);
    EXPECT_GT(error, 1e-4) << name << ": nothing was rounded";
    EXPECT_LT(error, 0.04) << name;
  }
}

TEST(AmxNetworks, OfIntegersAreExact) {
  if (!tile_target()) GTEST_SKIP() << "the machine lacks an extension other than AMX";
  Draw draw(5);
  const Graph graph = parse_graph(R"(graph "g" {
    input %q: u8[1,64,14,14]
    const %w: f32[64,64,3,3]#w
    const %v: f32[256,64,1,1]#v
    const %one: f32[](1)
    const %zero: u8[](131)
    const %f: f64[](0.0009765625)
    const %c: f64[](0)
    %x: f32[1,64,14,14] = kilter::Dequantize@1 "x" {to=1}(%q, %one, %zero)
    %s: i32[1,64,14,14] = kilter::IntegerConv@1 "s" {pads=[1, 1, 1, 1]}(%x, %w)
    %r: f32[1,64,14,14] = kilter::RoundedSum@1 "r" {high=100, low=-100}(%s, %f, %c)
    %p: f32[1,64,7,7] = MaxPool@12 "p" {kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]}(%r)
    %t: i32[1,256,7,7] = kilter::IntegerConv@1 "t"(%p, %v)
    %y: f32[1,256,7,7] = kilter::RoundedSum@1 "y" {high=255, low=0}(%t, %f, %c)
    output "y" %y
  })",
                                  {{"w", integers(draw, DType::f32, {64, 64, 3, 3}, -128, 127)},
                                   {"v", integers(draw, DType::f32, {256, 64, 1, 1}, -128, 127)}});
  const std::vector<Tensor> inputs{integers(draw, DType::u8, {1, 64, 14, 14}, 0, 255)};
  CompileOptions options;
  options.target = *tile_target();
  Plan plan = compile_graph(graph, options).plan;
  EXPECT_EQ(steps_with_tiles(plan), 2) << steps_text(plan);
  EXPECT_EQ(run_guarded(program_of(std::move(plan)), inputs, evaluate(graph, inputs), Tolerance{0, 0}, 8), "");
}

TEST(AmxNetworks, RequireAmxFeatures) {
  if (!tile_target()) GTEST_SKIP() << "the machine lacks an extension other than AMX";
  Layer l(1);
  make_product(l);
  CompileOptions options;
  options.target = *tile_target();
  const std::vector<std::string> needs = compile_graph(l.net.graph(), options).plan.required_features;
  for (const char* feature : {"amx-tile", "amx-bf16", "amx-int8"})
    EXPECT_NE(std::ranges::find(needs, feature), needs.end()) << feature;
}

}  // namespace
}  // namespace kilter
