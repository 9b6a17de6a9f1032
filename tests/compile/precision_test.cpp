// --precision bf16 and fp16, and networks that declare these types: exact results where rounding loses nothing,
// otherwise errors of the size of the type's rounding, and options.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compile/check_options.h"
#include "compile/placed_tasks.h"
#include "draw.h"
#include "guarded_run.h"
#include "narrow_layers.h"
#include "ops/support/evaluate.h"
#include "ops/support/onnx_dtype.h"
#include "task_spaces.h"
#include "zoo/zoo.h"

namespace kilter {
namespace {

CompileOptions options_for(Precision precision) {
  CompileOptions options;
  options.target = native_target();
  options.precision = precision;
  return options;
}
CompileOptions bf16_options() { return options_for(Precision::bf16); }

bool has_instruction(Precision precision = Precision::bf16) {
  return has_instructions(native_target().limits, precision);
}

/// Forces a random candidate of a random template on every task that has one.
void draw_schedules(Layer& l, CompileOptions& options) {
  options.contents.tasks = true;
  const Compiled compiled = compile_graph(l.net.graph(), options);
  for (const TaskEntry& entry : compiled.tasks->tasks) {
    if (entry.kind != TaskEntry::kernel) continue;
    const Task task = compiled.tasks->task(entry);
    if (task.node().op->movement == Movement::relayout) continue;
    const Template* from = find_template(entry.schedule.name);
    if (from == nullptr || from->name == "conv2d_winograd") continue;  // Winograd's sums are not exact
    const auto analysed = from->analyse(task, options.target.limits);
    const std::vector<Schedule> all = (*analysed)->candidates();
    if (all.empty()) continue;
    Schedule schedule = all[static_cast<size_t>(l.net.draw.between(0, std::ssize(all) - 1))];
    for (const Knob& knob : (*analysed)->space()) {  // no candidate divides the keys of a small network
      const auto keys = std::ranges::find(schedule.knobs, "keys", &std::pair<std::string, int64_t>::first);
      if (knob.name == "keys")
        keys->second = knob.values.at(static_cast<size_t>(l.net.draw.between(0, std::ssize(knob.values) - 1)));
    }
    options.choices[task.node().name].schedule = std::move(schedule);
  }
  options.contents.tasks = false;
}

struct LayerKind {
  const char* name;
  void (*make)(Layer&);
  Precision precision;
};
class NarrowLayers : public testing::TestWithParam<LayerKind> {};

TEST_P(NarrowLayers, WholeNumbersGiveExactResults) {
  const Precision precision = GetParam().precision;
  if (!has_instruction(precision)) GTEST_SKIP() << "this CPU has no instruction for " << name(precision);
  const std::string as_stored = fmt::format(":{}", name(*stored_type(precision)));
  int64_t stored = 0, rows = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    Layer l(seed);
    GetParam().make(l);
    CompileOptions options = options_for(precision);
    options.accuracy = Accuracy::strict;
    if (seed % 2 == 1) draw_schedules(l, options);
    const Compiled compiled = compile_graph(l.net.graph(), options);
    const std::vector<Tensor> want = evaluate(l.net.graph(), l.inputs);
    const std::string wrong = run_guarded(std::make_shared<const Program>(compiled.plan), l.inputs, want,
                                          {.rtol = 0, .atol = 0, .scaled = false}, seed % 3 * 4);
    ASSERT_EQ(wrong, "") << "seed " << seed << "\n" << steps_text(compiled.plan);
    for (const Step& step : compiled.plan.steps) {
      stored += step.problem.find(as_stored) != std::string::npos ? 1 : 0;
      rows += step.layouts.starts_with("plain") && step.multiplies == DType::bf16 ? 1 : 0;
    }
  }
  EXPECT_GT(stored, 100) << "most layers read narrow values";
  EXPECT_TRUE(precision != Precision::bf16 || rows > 5) << rows << " plain images and matrices are multiplied in pairs";
}

INSTANTIATE_TEST_SUITE_P(Kinds, NarrowLayers,
                         testing::Values(LayerKind{"Conv_bf16", make_conv, Precision::bf16},
                                         LayerKind{"MatMul_bf16", make_product, Precision::bf16},
                                         LayerKind{"Conv_fp16", make_conv, Precision::fp16},
                                         LayerKind{"MatMul_fp16", make_product, Precision::fp16}),
                         [](const auto& kind) { return kind.param.name; });

/// The same network with all floats, weights, inputs and outputs of a different type.
Graph declared_as(Graph graph, DType type) {
  for (ValueId v = 0; v < static_cast<ValueId>(graph.value_count()); ++v) {
    if (graph.value(v).dead || graph.type(v).dtype != DType::f32) continue;
    Value& value = graph.change_value(v);
    value.type.dtype = type;
    if (!value.constant) continue;
    Tensor narrow(type, value.type.shape);
    for (int64_t i = 0; i < narrow.elems(); ++i) {
      const float x = value.constant->data<float>()[i];
      type == DType::f16 ? void(narrow.data<Half>()[i] = Half(x)) : void(narrow.data<BFloat16>()[i] = BFloat16(x));
    }
    value.constant = narrow;
  }
  verify_types(graph);
  return graph;
}

Graph small_network(std::string_view name) { return zoo::build(name, {.size = name == "bert_base" ? 16 : 64}); }

std::vector<Tensor> inputs_of(const Graph& graph) {
  std::vector<Tensor> inputs;
  Draw draw(7);
  for (ValueId v : graph.inputs()) inputs.push_back(draw.tensor(graph.type(v).shape));
  return inputs;
}

Tensor result(const Graph& graph, const std::vector<Tensor>& inputs, const CompileOptions& options) {
  return run_on(std::make_shared<const Program>(compile_graph(graph, options).plan), inputs, 1).at(0);
}

/// The difference of a network's result from f32.
double error_of(const char* name, const std::function<void(CompileOptions&)>& change,
                Precision precision = Precision::bf16) {
  const Graph graph = small_network(name);
  const std::vector<Tensor> inputs = inputs_of(graph);
  CompileOptions options = options_for(precision);
  change(options);
  return difference(result(graph, inputs, options), result(graph, inputs, options_for(Precision::declared)));
}

TEST(Fp16Networks, DeviateByRoundingOnly) {
  if (!has_instruction(Precision::fp16)) GTEST_SKIP() << "this CPU has no instruction that converts f16";
  for (const char* name : {"resnet18", "mobilenet_v2", "squeezenet1_1", "densenet121", "bert_base"}) {
    const double error = error_of(name, [](CompileOptions&) {}, Precision::fp16);
    EXPECT_GT(error, 1e-5) << name << ": nothing was rounded";
    EXPECT_LT(error, 0.005) << name;
  }
}

TEST(Fp16Networks, WeightsTakeHalfOfTheMemory) {
  if (!has_instruction(Precision::fp16)) GTEST_SKIP() << "this CPU has no instruction that converts f16";
  const Graph graph = small_network("resnet18");
  const auto bytes = [&](const Graph& network, Precision precision) {
    CompileOptions options = options_for(precision);
    options.accuracy = Accuracy::strict;  // Winograd convolutions have their own weights, in f32
    return static_cast<double>(compile_graph(network, options).plan.constants_bytes);
  };
  const double wide = bytes(graph, Precision::declared);
  EXPECT_LT(bytes(graph, Precision::fp16), 0.52 * wide);
  EXPECT_LT(bytes(declared_as(graph, DType::f16), Precision::declared), 0.52 * wide);
}

TEST(DeclaredTypes, UseF32Kernels) {
  for (const DType type : {DType::f16, DType::bf16}) {
    for (const char* name : {"resnet18", "mobilenet_v2", "squeezenet1_1"}) {
      const Graph graph = small_network(name);
      const std::vector<Tensor> inputs = inputs_of(graph);
      std::vector<Tensor> given;
      for (const Tensor& x : inputs) {
        Graph one;
        GraphBuilder b(one);
        b.fold_limit = -1;
        one.add_output(b.add("Cast", {b.input("x", DType::f32, x.shape())}, {{"to", code_of_dtype(type)}}), "y");
        given.push_back(evaluate(one, {x}).at(0));
      }
      const CompileOptions options = options_for(Precision::declared);
      const Compiled compiled = compile_graph(declared_as(graph, type), options);
      for (const Step& step : compiled.plan.steps) EXPECT_NE(step.kind, StepKind::reference) << name << step.name;
      const Tensor got = run_on(std::make_shared<const Program>(compiled.plan), given, 1).at(0);
      EXPECT_EQ(got.dtype(), type);
      const double error = difference(got, result(graph, inputs, options));
      EXPECT_GT(error, 1e-5) << name << ": nothing was rounded";
      EXPECT_LT(error, type == DType::f16 ? 0.005 : 0.04) << name;
    }
  }
}

/// Weights that overflow in f16, or that f16 can represent with only a few digits, stay in f32.
TEST(Fp16Networks, WeightsOutsideTheRangeOfF16StayInF32) {
  if (!has_instruction(Precision::fp16)) GTEST_SKIP() << "this CPU has no instruction that converts f16";
  for (const float weight : {1e5F, 11 * 0x1p-25F}) {  // their sums are exact in f32
    Graph graph;
    GraphBuilder b(graph);
    Tensor w(DType::f32, {64, 64}), x(DType::f32, {1, 64});
    for (float& v : w.span<float>()) v = weight;
    for (float& v : x.span<float>()) v = 1;
    graph.add_output(b.add("MatMul", {b.input("x", DType::f32, {1, 64}), b.constant(w)}), "y");
    EXPECT_EQ(result(graph, {x}, options_for(Precision::fp16)).as_double(63), double{64 * weight});
  }
}

TEST(Bf16Attention, UsesBf16PairProducts) {
  if (!native_target().limits.multiplies_bf16()) GTEST_SKIP() << "this CPU multiplies bf16 no faster than f32";
  int64_t pairs = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    Layer l(seed);
    make_attention(l);
    CompileOptions options = bf16_options();
    if (seed % 2 == 1) draw_schedules(l, options);
    const Compiled compiled = compile_graph(l.net.graph(), options);
    const std::vector<Tensor> want = evaluate(l.net.graph(), l.inputs);
    const std::string wrong = run_guarded(std::make_shared<const Program>(compiled.plan), l.inputs, want,
                                          {.rtol = 2e-6, .atol = 1e-6, .scaled = false}, seed % 3 * 4);
    ASSERT_EQ(wrong, "") << "seed " << seed << "\n" << steps_text(compiled.plan);
    for (const Step& step : compiled.plan.steps) {
      const bool attention = step.schedule.starts_with("attention_");
      pairs += attention && step.multiplies == DType::bf16 ? 1 : 0;
    }
  }
  EXPECT_GT(pairs, 75) << "most attention multiplies bf16";
}

TEST(Bf16Networks, DeviateByRoundingOnly) {
  if (!has_instruction()) GTEST_SKIP() << "this CPU has no instruction that multiplies bf16";
  for (const char* name : {"resnet18", "mobilenet_v2", "squeezenet1_1", "densenet121", "bert_base"}) {
    const double error = error_of(name, [](CompileOptions&) {});
    EXPECT_GT(error, 1e-4) << name << ": nothing was rounded";
    EXPECT_LT(error, 0.04) << name;
  }
}

TEST(Bf16Networks, KeepFloatLeavesLayersInF32) {
  if (!has_instruction()) GTEST_SKIP() << "this CPU has no instruction that multiplies bf16";
  const double all = error_of("squeezenet1_1", [](CompileOptions&) {});
  const double none = error_of("squeezenet1_1", [](CompileOptions& o) {
    o.keep_float = {"Conv", "Relu", "MaxPool", "Concat", "GlobalAveragePool", "Flatten"};
  });
  EXPECT_LT(none, 1e-6);
  EXPECT_LT(none, all);
}

class NarrowProblems : public testing::TestWithParam<Precision> {};

TEST_P(NarrowProblems, LinesDescribeTheirTasks) {
  CompileOptions options = options_for(GetParam());
  const std::string stored = fmt::format(" >{}", name(*stored_type(GetParam())));
  options.target = parse_target("znver5");
  options.contents.code = false;
  const auto problems = [&](Graph graph, const CompileOptions& how) {
    std::set<std::string> all;
    for (const Step& step : compile_graph(std::move(graph), how).plan.steps) all.insert(step.problem);
    return all;
  };
  int64_t read = 0;
  for (const char* network : {"resnet18", "mobilenet_v2", "bert_base"}) {
    for (const std::string& line : problems(zoo::build(network, {.weights = false}), options)) {
      const bool whole = line.ends_with(stored) && line.find("f32[") == std::string::npos;
      if (!whole || line.starts_with("relayout")) continue;
      Problem problem = parse_problem(line);
      CompileOptions how;
      how.target = options.target;
      how.contents.code = false;
      apply(problem, how);
      EXPECT_TRUE(problems(std::move(problem.graph), how).contains(line)) << line;
      ++read;
    }
  }
  EXPECT_GT(read, 20);
}

INSTANTIATE_TEST_SUITE_P(Types, NarrowProblems, testing::Values(Precision::bf16, Precision::fp16),
                         [](const auto& precision) { return std::string(name(precision.param)); });

TEST(Bf16Networks, ProblemLinesRefuseOtherTypes) {
  const auto message = [](std::string_view line) {
    try {
      parse_problem(line);
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("no error");
  };
  EXPECT_EQ(message("relu(f32:bf16[8]) >f32"),
            "problem 'relu(f32:bf16[8]) >f32', column 20: expected bf16, f16, or u8 with a zero point such as "
            "u8+3, got 'f32'");
  EXPECT_EQ(message("relu(f32:bf16[8]) >f16"),
            "problem 'relu(f32:bf16[8])', column 6: expected a numeric element type before '[', got 'f32:bf16[8]'");
  EXPECT_EQ(message("relu(i32:bf16[8])"),
            "problem 'relu(i32:bf16[8])', column 6: expected a numeric element type before '[', got 'i32:bf16[8]'");
}

std::string usage_error(const CompileOptions& options) {
  Layer l(1);
  make_conv(l);
  try {
    compile_graph(l.net.graph(), options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.message();
  }
  return "no error";
}

TEST(Bf16Options, UnsupportedOptionsAreErrors) {
  CompileOptions options = bf16_options();
  options.target = parse_target("x86-64-v3");
  EXPECT_EQ(
      usage_error(options),
      "--precision bf16: target 'x86-64-v3' has no instruction that multiplies bf16 (AVX-512 BF16, AMX, Arm BF16), "
      "so layers would take as long as in f32 and the conversions longer; use --precision declared, or a --target "
      "with a faster instruction, such as znver4, sapphirerapids or neoverse-v1");
  options.target = parse_target("sapphirerapids-avx512");
  EXPECT_TRUE(
      usage_error(options).starts_with("--precision bf16: target 'sapphirerapids-avx512' multiplies bf16 no faster "
                                       "than f32 (AVX-512 BF16 without AMX), so "));
  options.target = parse_target("znver5");
  options.keep_float = {"Softmax"};
  EXPECT_EQ(usage_error(options).substr(0, 91),
            "--keep-float Softmax: no node or operator of the network has this name; its operators are A");
  options.precision = Precision::declared;
  EXPECT_EQ(usage_error(options),
            "--keep-float Softmax: has no effect with '--precision declared', where every layer keeps its types; use "
            "--precision bf16 or fp16");
  options = options_for(Precision::fp16);
  options.target = parse_target("x86-64-v2");
  EXPECT_EQ(usage_error(options),
            "--precision fp16: target 'x86-64-v2' has no instruction that converts f16 (F16C), so each vector that is "
            "loaded or stored would take about 20 more instructions; use --precision declared, or a --target with the "
            "instruction, such as x86-64-v3");
}

}  // namespace
}  // namespace kilter
