// The template of the recurrent operators: all tile sizes give the reference kernel's results; unsupported nodes and
// illegal knobs are rejected with the reason.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "compile/compile.h"
#include "compile/session.h"
#include "compile/tasks.h"
#include "ops/support/cases.h"
#include "ops/support/evaluate.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

/// A case with constant weights. `bytes`: r consists of integers that fit in i8, and its scale is also constant.
OpCase with_weights(std::string_view op, const std::string& text, bool bytes = false) {
  const bool steps = op.ends_with("Steps");
  const OpDef& def = *find_op(steps ? "kilter" : "", op, 22);
  ParsedCase parsed = parse_case(def, text);
  for (size_t i = 1; i < std::min<size_t>(parsed.operands.size(), steps ? 2 : 4); ++i) {
    if (parsed.operands[i].kind == CaseOperand::Kind::random) parsed.operands[i].kind = CaseOperand::Kind::constant;
  }
  if (bytes) {
    Tensor& r = parsed.operands.at(1).tensor;
    for (int64_t i = 0; i < r.elems(); ++i) r.data<float>()[i] = static_cast<float>((i * 37 + i / 5) % 256 - 128);
    CaseOperand& scale = parsed.operands.at(6);
    scale.kind = CaseOperand::Kind::constant;
    for (float& s : scale.tensor.span<float>()) s *= 0.01F;  // larger sums would only amplify errors
  }
  return make_case(def, parsed, text);
}

Compiled compile_case(const OpCase& c, const std::string& schedule, std::string_view target) {
  CompileOptions options;
  options.target = parse_target(target);
  const Graph& graph = c.graph;
  if (!schedule.empty()) options.choices[graph.node(graph.order().front()).name].schedule = parse_schedule(schedule);
  return compile_graph(graph, options);
}

std::vector<std::string_view> runnable(std::vector<std::string_view> names) {
  std::erase_if(names, [](std::string_view name) { return !runs_here(parse_target(name)); });
  return names;
}

void expect_right(const OpCase& c, const std::string& op, const std::string& text, const std::string& schedule,
                  const std::vector<std::string_view>& targets, DType multiplies = DType::f32) {
  const std::vector<Tensor> want = evaluate(c.graph, c.inputs);
  for (const std::string_view target : targets) {
    const std::string where = fmt::format("{} {} | {} on {}", op, text, schedule, target);
    Compiled compiled = compile_case(c, schedule, target);
    EXPECT_EQ(compiled.plan.steps.back().schedule, schedule) << where;
    EXPECT_EQ(compiled.plan.steps.back().multiplies, multiplies) << where;
    const auto program = std::make_shared<const Program>(std::move(compiled.plan));
    Loaded loaded{program, std::make_unique<Instance>(program, std::make_shared<ThreadPool>(2)), {}};
    const std::vector<Tensor> got = run_plan(loaded, c.inputs);
    ASSERT_EQ(got.size(), want.size()) << where;
    for (size_t i = 0; i < got.size(); ++i) {
      const auto difference = compare(got[i], want[i], c.tolerance);
      EXPECT_FALSE(difference.has_value()) << where << ", output " << i << ": " << *difference;
    }
  }
}

void expect_right(const std::string& op, const std::string& text, const std::string& schedule) {
  expect_right(with_weights(op, text), op, text, schedule, runnable({"x86-64-v2", "x86-64-v3", "x86-64-v4"}));
}

TEST(RecurrentSteps, ScaledBytesGiveTheSameResult) {
  const std::string op = "LSTMSteps";
  const auto check = [&](const std::string& text, const std::string& knobs) {
    const OpCase c = with_weights(op, text, true);
    expect_right(c, op, text, "recurrent_steps " + knobs, runnable({"x86-64-v3", "x86-64-v4"}));
    expect_right(c, op, text, "recurrent_steps " + knobs, runnable({"alderlake", "cascadelake"}), DType::i8);
  };
  // 37 hidden units leave a partial group of four bytes and a partial block, 5 rows a partial tile.
  for (const std::string knobs : {"vectors=1 rows=1 prefetch=0", "vectors=1 rows=1 prefetch=1024"})
    check("f32[3,5,296] f32[2,148,37] f32[2,5,37] f32[2,5,37] ? ? f32[2,148] | direction=bidirectional | | 3", knobs);
  for (const std::string knobs : {"vectors=2 rows=1 prefetch=0", "vectors=1 rows=2 prefetch=0"}) {
    const OpCase c =
        with_weights(op, "f32[3,5,148] f32[1,148,37] ? ? f32[1,111] i32[5]:1,3,0,2,2 f32[1,148] | | | 3", true);
    expect_right(c, op, "lengths", "recurrent_steps " + knobs, runnable({"cascadelake"}), DType::i8);
  }
  check("f32[1,2,260] f32[1,260,65] f32[1,2,65] ? ? ? f32[1,260]", "vectors=1 rows=1 prefetch=0");
  OpCase lost = with_weights(op, "f32[2,1,64] f32[1,64,16] f32[1,1,16] ? ? ? f32[1,64]", true);
  lost.inputs.at(1).data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  expect_right(lost, op, "NaN", "recurrent_steps vectors=1 rows=1 prefetch=0", runnable({"cascadelake"}), DType::i8);
}

TEST(RecurrentSteps, WeightsBeyondBytesAreMultipliedAsF32) {
  const std::string text = "f32[3,2,148] f32[1,148,37] ? ? ? ? f32[1,148]";
  OpCase c = with_weights("LSTMSteps", text, true);
  for (const NodeId id : c.graph.order()) {
    Tensor r = *c.graph.value(c.graph.node(id).inputs[1]).constant;
    r.data<float>()[5] = 130;
    c.graph.change_value(c.graph.node(id).inputs[1]).constant = std::move(r);
  }
  expect_right(c, "LSTMSteps", text, "recurrent_steps vectors=1 rows=1 prefetch=0",
               runnable({"x86-64-v3", "cascadelake"}));
}

TEST(RecurrentSteps, EveryTileGivesTheSameResult) {
  // On every target, 5 rows leave a partial tile, and 37 hidden units a partial block.
  for (const std::string knobs : {"vectors=1 rows=1 prefetch=0", "vectors=1 rows=2 prefetch=1024",
                                  "vectors=2 rows=1 prefetch=1024", "vectors=3 rows=1 prefetch=0"}) {
    expect_right("LSTMSteps", "f32[3,5,296] f32[2,148,37] f32[2,5,37] f32[2,5,37] | direction=bidirectional | | 3",
                 "recurrent_steps " + knobs);
    expect_right("GRUSteps",
                 "f32[3,5,222] f32[2,111,37] f32[2,5,37] f32[2,37] | direction=bidirectional "
                 "linear_before_reset=1 | | 2",
                 "recurrent_steps " + knobs);
    expect_right("GRUSteps", "f32[3,5,111] f32[1,111,37] | | | 2", "recurrent_steps " + knobs);
    expect_right("RNNSteps", "f32[3,5,37] f32[1,37,37] | direction=reverse | | 2", "recurrent_steps " + knobs);
    // With 40 units, some vectors of the last block are entirely unused.
    expect_right("RNNSteps", "f32[3,5,40] f32[1,40,40] | | | 2", "recurrent_steps " + knobs);
    // Sequences that end early, in every position of a tile.
    expect_right(
        "LSTMSteps",
        "f32[3,5,296] f32[2,148,37] f32[2,5,37] f32[2,5,37] ? i32[5]:1,3,0,2,2 | direction=bidirectional | | 3",
        "recurrent_steps " + knobs);
    expect_right("GRUSteps", "f32[3,5,111] f32[1,111,37] f32[1,5,37] ? i32[5]:0,0,3,2,1 | direction=reverse | | 2",
                 "recurrent_steps " + knobs);
    expect_right("RNNSteps", "f32[5,3,40] f32[1,40,40] f32[5,1,40] i32[5]:0,1,0,3,2 | layout=1 | | 2",
                 "recurrent_steps " + knobs);
  }
}

TEST(RecurrentSteps, LengthsOutOfRangeAreAnError) {
  const OpCase c =
      with_weights("LSTMSteps", "f32[3,2,20] f32[1,20,5] f32[1,2,5] f32[1,2,5] ? i32[2]:3,0 | direction=reverse | | 3");
  const auto program = std::make_shared<const Program>(compile_case(c, "", "x86-64-v2").plan);
  Loaded loaded{program, std::make_unique<Instance>(program, std::make_shared<ThreadPool>(1)), {}};
  const std::vector<Tensor> want = run_plan(loaded, c.inputs);
  for (const int32_t length : {4, -1, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()}) {
    std::vector<Tensor> inputs = c.inputs;
    inputs.back() = Tensor::of<int32_t>({2}, {3, length});
    try {
      run_plan(loaded, inputs);
      ADD_FAILURE() << length << " is accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      EXPECT_EQ(error.message(),
                fmt::format("LSTMSteps 'case': sequence_lens[1] is {}; legal values are 0 to 3", length));
    }
  }
  const std::vector<Tensor> again = run_plan(loaded, c.inputs);  // the error has no effect on later runs
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(again[i].same(want[i])) << i;
}

TEST(RecurrentSteps, SingleStepRunsBlocksInParallel) {
  const auto extent = [](std::string_view op, const std::string& text) {
    const OpCase c = with_weights(op, text);
    return compile_case(c, "recurrent_steps vectors=1 rows=1 prefetch=0", "x86-64-v2").plan.steps.back().extent;
  };
  EXPECT_EQ(extent("LSTMSteps", "f32[1,2,148] f32[1,148,37]"), 2 * 10);
  EXPECT_EQ(extent("LSTMSteps", "f32[2,2,148] f32[1,148,37]"), 2);
  EXPECT_EQ(extent("LSTMSteps", "f32[1,2,148] f32[1,148,37] ? ? ? i32[2]:1,0"), 2);
  EXPECT_EQ(extent("LSTMSteps", "f32[2,3,296] f32[2,148,37] | direction=bidirectional"), 2 * 3);
  EXPECT_EQ(extent("GRUSteps", "f32[1,2,111] f32[1,111,37]"), 2);  // the second product needs all of the first
  EXPECT_EQ(extent("GRUSteps", "f32[1,2,111] f32[1,111,37] | linear_before_reset=1"), 2 * 10);
}

TEST(RecurrentSteps, InputProductIsASeparateStep) {
  const OpCase c = with_weights("LSTM", "f32[9,2,16] f32[1,96,16] f32[1,96,24] f32[1,192]");
  const Plan plan = compile_case(c, "", "x86-64-v2").plan;
  ASSERT_EQ(plan.steps.size(), 2U);
  EXPECT_EQ(plan.steps[0].ops, "MatMul+Add");
  EXPECT_TRUE(plan.steps[0].schedule.starts_with("matmul_tiled")) << plan.steps[0].schedule;
  EXPECT_EQ(plan.steps[1].ops, "LSTMSteps");
  EXPECT_TRUE(plan.steps[1].schedule.starts_with("recurrent_steps")) << plan.steps[1].schedule;
  EXPECT_EQ(plan.steps[1].flops, 2 * 9 * 2 * 4 * 24 * 24);
  EXPECT_EQ(plan.steps[1].bytes, 4 * (9 * 2 * 96 + 96 * 24 + 9 * 2 * 24));
}

/// Returns the schedule that the template picks for the first node of a case, or its reason for rejecting the node.
std::string answer(const OpCase& c) {
  const Task task = make_task(c.graph, Unit{{c.graph.order().front()}}, nullptr);
  const auto picked = recurrent_steps.pick(task, parse_target("x86-64-v2").limits);
  return picked ? picked->text() : picked.rejected().text();
}

TEST(RecurrentSteps, RefusalsNameTheLimit) {
  const auto case_of = [](std::string_view op, const std::string& text) {
    return make_case(*find_op(op.ends_with("Steps") ? "kilter" : "", op, 22), text);
  };
  const std::string lstm = "f32[3,2,4] f32[1,20,4]=1 f32[1,20,5]=1 f32[1,40]=1 ";
  EXPECT_EQ(answer(case_of("Relu", "f32[3]")), "operator: limit LSTM, GRU, RNN, got Relu");
  EXPECT_EQ(answer(case_of("LSTM", "f64[3,2,4] f64[1,20,4]=1 f64[1,20,5]=1")), "element type: limit f32, got f64");
  EXPECT_EQ(answer(case_of("LSTM", "f32[0,2,4] f32[1,20,4]=1 f32[1,20,5]=1")),
            "steps, batch, input and hidden: limit 1 or more, got 0, 2, 4 and 5");
  EXPECT_EQ(answer(case_of("LSTM", "f32[3,2,4] f32[1,20,4] f32[1,20,5]=1")),
            "w: limit constant, got computed at run time");
  EXPECT_EQ(answer(case_of("LSTM", "f32[3,2,4] f32[1,20,4]=1 f32[1,20,5]")),
            "r: limit constant, got computed at run time");
  EXPECT_EQ(answer(case_of("LSTM", "f32[3,2,4] f32[1,20,4]=1 f32[1,20,5]=1 f32[1,40]")),
            "bias: limit constant, got computed at run time");
  EXPECT_EQ(answer(case_of("LSTM", lstm + "i32[2]=3,4")), "sequence_lens: limit 0 to 3, got 4");
  EXPECT_EQ(answer(case_of("LSTM", lstm + "i32[2]=-1,3")), "sequence_lens: limit 0 to 3, got -1");
  EXPECT_EQ(answer(case_of("LSTM", lstm)),
            "operator: limit LSTMSteps, which the pass split_recurrent creates, got LSTM");
  EXPECT_EQ(answer(case_of("RNNSteps", "f32[3,2,10] f32[2,5,5]=1 | direction=bidirectional activations=[Tanh,Relu]")),
            "activation functions: limit the same in both directions, got different ones in the second");
  EXPECT_EQ(answer(case_of("RNNSteps", "f32[3,1,5] f32[1,5,5]=1")), "recurrent_steps vectors=2 rows=1 prefetch=0");
}

std::string refusal(const std::string& schedule) {
  try {
    compile_case(with_weights("LSTMSteps", "f32[3,9,160] f32[1,160,40]"), schedule, "x86-64-v3");
  } catch (const Error& error) {
    const size_t at = error.message().find("does not apply");
    return at == std::string::npos ? error.message() : error.message().substr(at);
  }
  return "no error";
}

TEST(RecurrentSteps, IllegalKnobsAreRefused) {
  EXPECT_EQ(refusal("recurrent_steps vectors=1 rows=3 prefetch=0"),
            "does not apply: recurrent_steps knob rows: limit one of 1, 2, got 3");
  EXPECT_EQ(refusal("recurrent_steps vectors=4 rows=1 prefetch=0"),
            "does not apply: recurrent_steps knob vectors: limit one of 1, 2, 3, got 4");
  EXPECT_EQ(refusal("recurrent_steps vectors=2 rows=2 prefetch=0"),
            "does not apply: register tile (rows with 2 vectors of 4 gates each): limit 1, got 2");
  EXPECT_EQ(refusal("recurrent_steps vectors=2 rows=1 prefetch=0"), "no error");
}

}  // namespace
}  // namespace kilter
