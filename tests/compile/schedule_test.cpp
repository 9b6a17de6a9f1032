// Schedules: their text form, which of them can be forced, and the errors for wrong ones.
#include "schedule/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "../base/error_of.h"
#include "guarded_run.h"
#include "ops/support/cases.h"
#include "ops/support/evaluate.h"
#include "task_spaces.h"

namespace kilter {
namespace {

using Forced = std::map<std::string, Schedule>;

std::string parse_error(std::string_view text) {
  try {
    parse_schedule(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.message();
  }
  return "no error";
}

TEST(Schedule, TextRoundTrips) {
  const Schedule s{"conv2d_direct", {{"vectors", 2}, {"rows", 1}, {"tile", 14}, {"prefetch", 0}}};
  EXPECT_EQ(s.text(), "conv2d_direct vectors=2 rows=1 tile=14 prefetch=0");
  EXPECT_EQ(parse_schedule(s.text()), s);
  EXPECT_EQ(parse_schedule("  move_regions "), (Schedule{"move_regions", {}}));
  EXPECT_EQ(parse_schedule("map  item=-5"), (Schedule{"map", {{"item", -5}}}));
  EXPECT_EQ(s.knob("tile"), 14);
  EXPECT_THROW(s.knob("unroll"), Error);
}

TEST(Schedule, MalformedTextIsAnError) {
  const std::string hint = "; write it as `kilter inspect` and profiles print it";
  for (const std::string word : {"item", "item=", "=4", "item=four", "item=4x", "item=99999999999999999999"}) {
    EXPECT_EQ(parse_error("map " + word),
              fmt::format("schedule 'map {}': expected knob=INTEGER, got '{}'{}", word, word, hint));
  }
  EXPECT_EQ(parse_error("map item=1 item=2"), "schedule 'map item=1 item=2': knob 'item' is given twice; give it once");
  EXPECT_EQ(parse_error(""), "schedule: expected 'template knob=value ...', got nothing");
  EXPECT_EQ(parse_error("   "), "schedule: expected 'template knob=value ...', got nothing");
}

/// Convolution and ReLU, flattened, followed by a matrix product.
struct Network {
  Network() {
    Graph& g = graph;
    Tensor filter = draw(DType::f32, {32, 16, 3, 3}), matrix = draw(DType::f32, {32 * 36, 5});
    const ValueId x = g.add_input("x", {DType::f32, {1, 16, 6, 6}, {}});
    const ValueId w = g.add_constant("w", filter), m = g.add_constant("m", matrix);
    const ValueId flat = g.add_constant("flat_shape", Tensor::of<int64_t>({2}, {1, 32 * 36}));
    const auto node = [&](std::string_view op, const std::string& name, Attrs attrs, std::vector<ValueId> in,
                          Shape shape) {
      const std::optional<TensorType> type{TensorType{DType::f32, std::move(shape), {}}};
      const NodeId id = g.add_node(find_op("", op, 17), name, 17, std::move(attrs), std::move(in), {type}, {name});
      return std::as_const(g).node(id).outputs[0];
    };
    const ValueId conv = node("Conv", "conv", {{"pads", std::vector<int64_t>{1, 1, 1, 1}}}, {x, w}, {1, 32, 6, 6});
    const ValueId relu = node("Relu", "relu", {}, {conv}, {1, 32, 6, 6});
    const ValueId rows = node("Reshape", "flat", {}, {relu, flat}, {1, 32 * 36});
    g.add_output(node("MatMul", "fc", {}, {rows, m}, {1, 5}), "y");
    inputs = {draw(DType::f32, {1, 16, 6, 6})};
    want = evaluate(g, inputs);
  }
  static Tensor draw(DType type, const Shape& shape) {
    Tensor t(type, shape);
    for (int64_t i = 0; i < t.elems(); ++i) t.data<float>()[i] = static_cast<float>((i * 37) % 19 - 9) / 16;
    return t;
  }

  Graph graph;
  std::vector<Tensor> inputs, want;
};

Compiled compile_forced(const Graph& graph, const Forced& forced, std::string_view target = "x86-64-v2") {
  CompileOptions options;
  options.target = parse_target(target);
  for (const auto& [node, schedule] : forced) options.choices[node].schedule = schedule;
  return compile_graph(graph, options);
}

const Step& step_of(const Compiled& compiled, std::string_view name) {
  const auto& steps = compiled.plan.steps;
  return *std::find_if(steps.begin(), steps.end(),
                       [&](const Step& s) { return s.name == name && s.kind != StepKind::halo; });
}

std::string answer(const Compiled& compiled, const std::vector<Tensor>& inputs, const std::vector<Tensor>& want) {
  return run_guarded(std::make_shared<const Program>(compiled.plan), inputs, want, {.rtol = 1e-4, .atol = 1e-5}, 0);
}

TEST(ForcedSchedule, ChangesTheStepButNotTheResult) {
  const Network net;
  for (const std::string text : {"conv2d_direct vectors=1 rows=1 tile=3 prefetch=0",
                                 "conv2d_direct vectors=4 rows=1 tile=2 prefetch=2048", "reference"}) {
    const Compiled compiled = compile_forced(net.graph, {{"conv", parse_schedule(text)}});
    EXPECT_EQ(step_of(compiled, "conv").schedule, text);
    EXPECT_EQ(answer(compiled, net.inputs, net.want), "") << text;
  }
  const Compiled compiled =
      compile_forced(net.graph, {{"fc", parse_schedule("matmul_tiled vectors=2 rows=1 prefetch=0")}});
  EXPECT_EQ(step_of(compiled, "fc").schedule, "matmul_tiled vectors=2 rows=1 prefetch=0");
  EXPECT_EQ(answer(compiled, net.inputs, net.want), "");
}

TEST(ForcedSchedule, TheOrderOfKnobsDoesNotMatter) {
  const Network net;
  const Compiled a =
      compile_forced(net.graph, {{"conv", parse_schedule("conv2d_direct vectors=2 rows=1 tile=3 prefetch=0")}});
  const Compiled b =
      compile_forced(net.graph, {{"conv", parse_schedule("conv2d_direct prefetch=0 tile=3 vectors=2 rows=1")}});
  EXPECT_EQ(step_of(a, "conv").schedule, step_of(b, "conv").schedule);
  EXPECT_EQ(step_of(a, "conv").key, step_of(b, "conv").key);
}

std::string forced_error(const std::string& node, std::string_view schedule) {
  static const Network net;
  try {
    compile_forced(net.graph, {{node, parse_schedule(schedule)}});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.message();
  }
  return "no error";
}

TEST(ForcedSchedule, IllegalSchedulesListLegalValues) {
  EXPECT_EQ(forced_error("conv", "conv2d_direct vectors=3 rows=1 tile=3 prefetch=0"),
            "--schedule conv: 'conv2d_direct vectors=3 rows=1 tile=3 prefetch=0' does not apply: conv2d_direct knob "
            "vectors: limit one of 1, 2, 4, 8, got 3");
  EXPECT_EQ(forced_error("conv", "conv2d_direct vectors=2 rows=1 tile=3 prefetch=0 colour=1"),
            "--schedule conv: 'conv2d_direct vectors=2 rows=1 tile=3 prefetch=0 colour=1' does not apply: knob of "
            "conv2d_direct: limit one of vectors, rows, tile, prefetch, got colour");
  EXPECT_EQ(forced_error("conv", "conv2d_direct vectors=2 rows=1 tile=3"),
            "--schedule conv: 'conv2d_direct vectors=2 rows=1 tile=3' does not apply: conv2d_direct knob prefetch: "
            "limit one of 0, 1, 1024, 2048, 4096, 8192, 16384, got nothing");
  EXPECT_EQ(forced_error("conv", "conv2d_direct vectors=8 rows=1 tile=6 prefetch=0"),
            "--schedule conv: 'conv2d_direct vectors=8 rows=1 tile=6 prefetch=0' does not apply: register tile (pixels "
            "with 8 vectors each): limit 0, got 6");
  EXPECT_EQ(forced_error("fc", "pool_rows tile=4"),
            "--schedule fc: 'pool_rows tile=4' does not apply: operator: limit MaxPool, AveragePool, got MatMul");
}

TEST(ForcedSchedule, TemplateAloneUsesItsDefaultKnobs) {
  const Network net;
  const std::string by_default = step_of(compile_forced(net.graph, {}), "conv").schedule;
  ASSERT_TRUE(by_default.starts_with("conv2d_direct ")) << by_default;
  EXPECT_EQ(step_of(compile_forced(net.graph, {{"conv", parse_schedule("conv2d_direct")}}), "conv").schedule,
            by_default);
  const Compiled product = compile_forced(net.graph, {{"fc", parse_schedule("matmul_tiled")}});
  EXPECT_TRUE(step_of(product, "fc").schedule.starts_with("matmul_tiled vectors=")) << step_of(product, "fc").schedule;
  EXPECT_EQ(answer(product, net.inputs, net.want), "");
  EXPECT_EQ(forced_error("fc", "conv2d_winograd"),
            "--schedule fc: 'conv2d_winograd' does not apply: operator family: limit conv, got MatMul; legal values "
            "are matmul_tiled, reference");
}

TEST(Forbidden, TextsAreParsed) {
  EXPECT_EQ(parse_forbidden("conv2d_winograd").text(), "conv2d_winograd");
  EXPECT_EQ(parse_forbidden("winograd@conv1").text(), "conv2d_winograd@conv1");
  EXPECT_EQ(parse_forbidden("direct vectors=2 tile=4@a").text(), "conv2d_direct vectors=2 tile=4@a");
}

TEST(Forbidden, WrongTextsListLegalForms) {
  EXPECT_TRUE(
      error_of([] { parse_forbidden("winogrand@conv1"); })
          .starts_with("--forbid winogrand@conv1: expected TEMPLATE, TEMPLATE@NODE or SCHEDULE@NODE; templates "
                       "are conv2d_then_depthwise, conv2d_depthwise, conv2d_amx, conv2d_plain_amx, conv2d_winograd, "));
  EXPECT_TRUE(error_of([] { parse_forbidden("winograd@"); }).starts_with("--forbid winograd@: expected TEMPLATE, "));
  EXPECT_EQ(error_of([] { parse_forbidden("depthwise@conv1"); }),
            "--forbid depthwise@conv1: 'depthwise' is the suffix of several names; legal values are "
            "conv2d_then_depthwise, conv2d_depthwise");
  EXPECT_EQ(template_of("conv3d", "--schedule conv=conv3d"), nullptr);
}

TEST(Forbidden, MatchesTemplatesAndSchedulesByNode) {
  const Schedule taken = parse_schedule("conv2d_direct vectors=2 rows=1");
  const auto bars = [&](const std::string& text) {
    const std::vector<Forbidden> all{parse_forbidden(text)};
    return forbids(all, "conv1", taken) != nullptr;
  };
  EXPECT_TRUE(bars("direct"));
  EXPECT_TRUE(bars("direct@conv1"));
  EXPECT_FALSE(bars("direct@conv2"));
  EXPECT_TRUE(bars("direct rows=1 vectors=2@conv1"));
  EXPECT_FALSE(bars("direct rows=1 vectors=4@conv1"));
  EXPECT_FALSE(bars("winograd@conv1"));
}

TEST(ForcedSchedule, UnknownNamesAreErrors) {
  std::string templates;
  for (const Template* t : all_templates()) templates += std::string(t->name) + ", ";
  EXPECT_EQ(forced_error("conv", "conv3d"),
            "--schedule conv: no template 'conv3d'; legal values are " + templates + "reference");
  const std::string tasks = ": no task has this name; legal values are conv, fc, flat, relu.plain, x.blocked";
  EXPECT_EQ(forced_error("conf", "map item=1024"), "--schedule conf=map item=1024" + tasks);
  EXPECT_EQ(forced_error("relu", "map item=1024"), "--schedule relu=map item=1024" + tasks);
  EXPECT_EQ(forced_error("flat", "map item=1024"),
            "--schedule flat=map item=1024: Reshape is a view of its operands' memory and runs no kernel; leave the "
            "option out");
}

/// For every task of every case of these operators, sets one knob after another to its smallest and largest value and
/// two in between: each schedule compiles and gives the right results, or is refused with a usage error.
class KnobSpace : public testing::TestWithParam<std::string_view> {};

void check_knob(const OpCase& c, const std::vector<Tensor>& want, const Target& target, const TaskSpace& task,
                size_t knob) {
  const std::vector<int64_t>& values = task.space[knob].values;
  ASSERT_FALSE(values.empty()) << task.space[knob].name;
  EXPECT_TRUE(std::is_sorted(values.begin(), values.end())) << task.space[knob].name;
  const size_t last = values.size() - 1;
  for (size_t at : std::set<size_t>{0, last / 3, 2 * last / 3, last}) {
    Schedule schedule = task.schedule;
    schedule.knobs.at(knob).second = values[at];
    SCOPED_TRACE(fmt::format("{} on {}: {}", c.name, target.name, schedule.text()));
    try {
      const Compiled compiled = compile_forced(c.graph, {{task.node, schedule}}, target.name);
      EXPECT_EQ(step_of(compiled, task.node).schedule, schedule.text());
      EXPECT_EQ(run_guarded(std::make_shared<const Program>(compiled.plan), c.inputs, want, c.tolerance, 8), "");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage) << error.message();
    }
  }
}

TEST_P(KnobSpace, EveryLegalScheduleIsCorrect) {
  for (const OpDef* op : all_ops()) {
    if (op->name != GetParam()) continue;
    for (CaseText text : op->cases) {
      const OpCase c = make_case(*op, with_weights(parse_case(*op, text)), text);
      const std::vector<Tensor> want = evaluate(c.graph, c.inputs);
      for (const Target& target : {targets_here().front(), targets_here().back()}) {
        for (const TaskSpace& task : tasks_of(c.graph, target)) {
          ASSERT_EQ(task.schedule.knobs.size(), task.space.size());
          for (size_t knob = 0; knob < task.space.size(); ++knob) check_knob(c, want, target, task, knob);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, KnobSpace,
                         testing::Values("Conv", "ConvTranspose", "MatMul", "Gemm", "MaxPool", "AveragePool",
                                         "ReduceMean", "ReduceMax", "Softmax", "LayerNormalization",
                                         "InstanceNormalization", "GroupNormalization", "Gather", "Resize", "Transpose",
                                         "Add", "LSTM", "GRU", "RNN"),
                         [](const auto& op) { return std::string(op.param); });

}  // namespace
}  // namespace kilter
