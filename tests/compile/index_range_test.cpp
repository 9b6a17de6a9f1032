// Out-of-range indices: the reference kernels, the compiled kernels on every instruction set, and (for constant
// indices) the compiler reject the same ones with the same message.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "../base/error_of.h"
#include "compile/compile.h"
#include "compile/index_limit.h"
#include "compile/session.h"
#include "compile/tasks.h"
#include "loop/passes/passes.h"
#include "ops/support/cases.h"
#include "ops/support/evaluate.h"
#include "ops/support/indexing.h"

namespace kilter {
namespace {

struct Kind {
  const char* op;
  const char* text;  ///< the case, in which T stands for the type of the indices
};

// Rows longer than a vector, with a remainder; single rows; scalars; first, last and middle axes.
constexpr Kind kKinds[] = {
    {"Gather", "f32[5,37] T[3]"},
    {"Gather", "f32[3,17,2] T[2,2] | axis=1"},
    {"Gather", "f32[3,9] T[] | axis=-1"},
    {"Gather", "i64[4,7] T[19] | axis=1"},
    {"GatherElements", "f32[3,40] T[3,37] | axis=0"},
    {"GatherElements", "f32[3,40] T[3,37] | axis=1"},
    {"GatherElements", "f32[2,5,3] T[2,4,3] | axis=-2"},
    {"GatherND", "f32[3,7,37] T[4,1]"},
    {"GatherND", "f32[3,7,5] T[2,4,2]"},
    {"GatherND", "i32[2,9,3] T[2,1] | batch_dims=1"},
    {"ScatterND", "f32[4,3,37] T[2,1] f32[2,3,37]"},
    {"ScatterND", "f32[4,6] T[3,2] f32[3] | reduction=add"},
    {"ScatterND", "f32[4,6] T[3,2] f32[3] | reduction=max"},
    {"ScatterElements", "f32[3,20] T[2,19] f32[2,19]"},
    {"ScatterElements", "f32[3,20] T[2,19] f32[2,19] | axis=1 reduction=mul"},
};

OpCase case_of(const Kind& kind, DType type, int64_t element, int64_t value, bool constant) {
  std::string text = kind.text;
  text.replace(text.find('T'), 1, name(type));
  const OpDef& op = *find_op("", kind.op, 18);
  ParsedCase parsed = parse_case(op, text);
  CaseOperand& indices = parsed.operands[1];
  indices.kind = constant ? CaseOperand::Kind::constant : CaseOperand::Kind::given;
  for (int64_t i = 0; i < indices.tensor.elems(); ++i) {
    const int64_t v = i == element ? value : 0;
    if (type == DType::i32) {
      indices.tensor.data<int32_t>()[i] = static_cast<int32_t>(v);
    } else {
      indices.tensor.data<int64_t>()[i] = v;
    }
  }
  return make_case(op, parsed, text);
}

IndexRange range_of(const OpCase& c) {
  const Node& node = c.graph.node(c.graph.order().front());
  return index_range(node, c.graph.type(node.inputs[0]).shape, c.graph.type(node.inputs[1]).shape).value();
}

int64_t count_of(const OpCase& c) { return elems(c.graph.type(c.graph.node(c.graph.order().front()).inputs[1]).shape); }

std::vector<int64_t> values_beyond(int64_t size, DType type) {
  std::vector<int64_t> values{size, -size - 1, std::numeric_limits<int32_t>::max(),
                              std::numeric_limits<int32_t>::min()};
  if (type == DType::i64) {
    values.push_back(std::numeric_limits<int64_t>::max());
    values.push_back(std::numeric_limits<int64_t>::min());
    values.push_back(int64_t{1} << 32);  // 0 in its low half
  }
  return values;
}

Loaded load(const Graph& graph, std::string_view target) {
  CompileOptions options;
  options.target = parse_target(target);
  const auto program = std::make_shared<const Program>(std::move(compile_graph(graph, options).plan));
  return {program, std::make_unique<Instance>(program, std::make_shared<ThreadPool>(2)), {}};
}

template <class F>
std::string refusal(F&& f) {
  return error_of(f, ErrorKind::bad_input);
}

TEST(IndexRange, KernelsRefuseSameIndicesAsReference) {
  for (const Kind& kind : kKinds) {
    for (const DType type : {DType::i32, DType::i64}) {
      const OpCase legal = case_of(kind, type, 0, 0, false);
      const IndexRange range = range_of(legal);
      const int64_t count = count_of(legal);
      for (const std::string_view target : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
        if (!runs_here(parse_target(target))) continue;
        Loaded loaded = load(legal.graph, target);
        for (const int64_t element : std::set<int64_t>{0, count / 2, count - 1}) {
          for (const int64_t value : values_beyond(range.size(element), type)) {
            const OpCase c = case_of(kind, type, element, value, false);
            const std::string want = refusal([&] { evaluate(c.graph, c.inputs); });
            EXPECT_NE(want.find(fmt::format(" is {}, out of range for axis {} of size {}; legal values are {} to {}",
                                            value, range.axis_of(element), range.size(element), -range.size(element),
                                            range.size(element) - 1)),
                      std::string::npos)
                << want;
            EXPECT_EQ(refusal([&] { run_plan(loaded, c.inputs); }), want) << kind.op << " " << kind.text << target;
          }
        }
        // The extreme indices are legal, and the instance still runs.
        for (const int64_t value : {-range.size(0), range.size(0) - 1}) {
          const OpCase c = case_of(kind, type, 0, value, false);
          EXPECT_FALSE(compare(run_plan(loaded, c.inputs).at(0), evaluate(c.graph, c.inputs).at(0), {}).has_value());
        }
      }
    }
  }
}

/// Lowers the step that reads the indices for a target and interprets it. Returns its status, or -1 if no template
/// applies.
int32_t interpreted(const OpCase& c, const CpuLimits& limits) {
  const Task task = make_task(c.graph, units(c.graph).front(), nullptr);
  const Template* from = find_template(task.node().op->family == Family::gather ? "gather_rows" : "scatter_rows");
  const auto schedule = from->pick(task, limits);
  if (!schedule) return -1;
  const Lowered lowered = *from->lower(task, *schedule, limits);
  const Stage& stage = lowered.stages.back();
  Tensor y(c.graph.type(task.node().outputs[0]).dtype, c.graph.type(task.node().outputs[0]).shape);
  std::vector<std::byte*> args;
  for (const StageArg& arg : stage.args) {
    const auto input = std::ranges::find(c.graph.inputs(), arg.index);
    args.push_back(input == c.graph.inputs().end()
                       ? y.raw()
                       : c.inputs[static_cast<size_t>(input - c.graph.inputs().begin())].raw());
  }
  const LoopFunc func = loop_passes::lower(stage.func, limits);
  return interpret(func, args, 0, func.parallel_extent());
}

TEST(IndexRange, LoopsOfEveryTargetDetectBadIndices) {
  for (const Kind& kind : kKinds) {
    for (const std::string_view target :
         {"x86-64-v2", "x86-64-v3", "x86-64-v4", "znver4", "neoverse-n1", "neoverse-v1"}) {
      const CpuLimits limits = parse_target(target).limits;
      const OpCase legal = case_of(kind, DType::i64, 0, 0, false);
      const int32_t fine = interpreted(legal, limits);
      if (fine < 0) continue;  // no template applies
      EXPECT_EQ(fine, 0);
      const int64_t count = count_of(legal);
      for (const int64_t element : std::set<int64_t>{0, count / 2, count - 1}) {
        const int64_t size = range_of(legal).size(element);
        for (const int64_t value : {size, -size - 1, int64_t{1} << 62})
          EXPECT_EQ(interpreted(case_of(kind, DType::i64, element, value, false), limits), kIndexOutOfRange)
              << kind.op << " " << kind.text << " " << target << " " << element;
        EXPECT_EQ(interpreted(case_of(kind, DType::i64, element, -size, false), limits), 0);
      }
    }
  }
}

TEST(IndexRange, BadConstantsAreRefusedAtCompileTime) {
  for (const Kind& kind : kKinds) {
    for (const DType type : {DType::i32, DType::i64}) {
      const OpCase legal = case_of(kind, type, 0, 0, true);
      const int64_t last = count_of(legal) - 1, size = range_of(legal).size(last);
      for (const int64_t value : {size, -size - 1}) {
        const std::string message = error_of([&] { case_of(kind, type, last, value, true); });
        EXPECT_NE(message.find(fmt::format(" is {}, out of range for axis {} of size {}; legal values are {} to {}",
                                           value, range_of(legal).axis_of(last), size, -size, size - 1)),
                  std::string::npos)
            << message;
        EXPECT_TRUE(message.starts_with(fmt::format("{} 'case': indices", kind.op))) << message;
      }
    }
  }
}

TEST(IndexRange, MessagesNameThePosition) {
  const auto message = [](const Kind& kind, int64_t element, int64_t value) {
    const OpCase c = case_of(kind, DType::i64, element, value, false);
    Loaded loaded = load(c.graph, "x86-64-v2");
    return refusal([&] { run_plan(loaded, c.inputs); });
  };
  EXPECT_EQ(message({"Gather", "f32[5,37] T[3]"}, 2, 7),
            "Gather 'case': indices[2] is 7, out of range for axis 0 of size 5; legal values are -5 to 4");
  EXPECT_EQ(message({"Gather", "f32[3,9] T[] | axis=-1"}, 0, -10),
            "Gather 'case': indices is -10, out of range for axis 1 of size 9; legal values are -9 to 8");
  EXPECT_EQ(message({"GatherND", "f32[3,7,5] T[2,4,2]"}, 15, 7),
            "GatherND 'case': indices[1,3,1] is 7, out of range for axis 1 of size 7; legal values are -7 to 6");
  EXPECT_EQ(
      message({"ScatterElements", "f32[3,20] T[2,19] f32[2,19] | axis=1"}, 20, 20),
      "ScatterElements 'case': indices[1,1] is 20, out of range for axis 1 of size 20; legal values are -20 to 19");
}

/// The error names the first out-of-range index, whichever thread finds one.
TEST(IndexRange, FirstBadIndexIsNamed) {
  OpCase c = case_of({"Gather", "f32[5,37] T[400]"}, DType::i64, 399, 9, false);
  c.inputs[1].data<int64_t>()[17] = -6;
  Loaded loaded = load(c.graph, "x86-64-v2");
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(refusal([&] { run_plan(loaded, c.inputs); }),
              "Gather 'case': indices[17] is -6, out of range for axis 0 of size 5; legal values are -5 to 4");
}

/// A step that is replayed alone reads leftovers of other steps in the arena, so it must not report bad indices.
TEST(IndexRange, ReplayedStepsDoNotCheckIndices) {
  const OpCase c = case_of({"Gather", "f32[5,37] T[3]"}, DType::i64, 1, 0, false);
  Loaded loaded = load(c.graph, "x86-64-v2");
  const Tensor y(DType::f32, {3, 37});
  const std::byte* from[] = {c.inputs[0].raw(), c.inputs[1].raw()};
  std::byte* to[] = {y.raw()};
  loaded.instance->run(from, to);
  c.inputs[1].data<int64_t>()[1] = 1000;
  EXPECT_NE(refusal([&] { loaded.instance->run(from, to); }), "no error");
  loaded.instance->replay(0, nullptr, nullptr);
}

TEST(IndexRange, TensorScatterWritesInsideItsCache) {
  const OpDef& op = *find_op("", "TensorScatter", 24);
  const auto with = [&](int64_t second, CaseOperand::Kind kind, const std::string& mode) {
    const std::string text = "f32[2,3,7,5] f32[2,3,2,5] i64[2]:0,0 | mode=" + mode;
    ParsedCase parsed = parse_case(op, text);
    parsed.operands[2].kind = kind;
    parsed.operands[2].tensor.data<int64_t>()[1] = second;
    return make_case(op, parsed, text);
  };
  for (const int64_t second : {6, -1}) {
    const std::string want = fmt::format(
        "TensorScatter 'case': write_indices[1] is {}, out of range for an update of 2 in axis 2 of size 7; legal "
        "values are "
        "0 "
        "to 5",
        second);
    const OpCase c = with(second, CaseOperand::Kind::given, "linear");
    EXPECT_EQ(refusal([&] { evaluate(c.graph, c.inputs); }), want);
    Loaded loaded = load(c.graph, "x86-64-v2");
    EXPECT_EQ(refusal([&] { run_plan(loaded, c.inputs); }), want);
    EXPECT_EQ(error_of([&] { with(second, CaseOperand::Kind::constant, "linear"); }), want);
    with(second, CaseOperand::Kind::constant, "circular");
  }
}

/// According to the standard, an index outside [-depth, depth - 1] gives a row of off_value.
TEST(IndexRange, OneHotAcceptsIndicesOutOfRange) {
  const OpDef& op = *find_op("", "OneHot", 11);
  for (const std::string type : {"i32", "i64", "f32"}) {
    for (const std::string values : {"f32[2]:2,5", "f32[2]=2,5"}) {
      const OpCase c = make_case(op, type + "[7]:0,4,5,-1,-5,-6,1000 i64[]=5 " + values);
      Loaded loaded = load(c.graph, "x86-64-v2");
      for (const Tensor& y : {evaluate(c.graph, c.inputs).at(0), run_plan(loaded, c.inputs).at(0)}) {
        const std::vector<int64_t> hot{0, 4, -1, 4, 0, -1, -1};
        for (int64_t i = 0; i < y.elems(); ++i)
          EXPECT_EQ(y.data<float>()[i], hot[static_cast<size_t>(i / 5)] == i % 5 ? 5 : 2) << type << " at " << i;
      }
    }
  }
}

TEST(IndexRange, IndexInputsHaveALimit) {
  const OpCase c = case_of({"GatherND", "f32[3,7,5] T[2,4,2]"}, DType::i64, 0, 0, false);
  EXPECT_EQ(index_limit(c.graph, c.graph.inputs()[1]), 3);
  EXPECT_EQ(index_limit(c.graph, c.graph.inputs()[0]), std::nullopt);
  const Loaded loaded = load(c.graph, "x86-64-v2");
  EXPECT_EQ(index_limit(loaded.plan(), 1), 3);
  EXPECT_EQ(index_limit(loaded.plan(), 0), std::nullopt);
  const OpCase lengths = make_case(*find_op("", "RNN", 22), "f32[6,2,3] f32[1,5,3] f32[1,5,5] ? i32[2]:6,2");
  EXPECT_EQ(index_limit(lengths.graph, lengths.graph.inputs().back()), 7);
  const OpCase steps = make_case(*find_op("kilter", "RNNSteps", 1), "f32[6,2,5] f32[1,5,5]=1 ? i32[2]:6,2");
  EXPECT_EQ(index_limit(load(steps.graph, "x86-64-v2").plan(), 1), 7);
}

}  // namespace
}  // namespace kilter
