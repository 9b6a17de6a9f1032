// Omits every optional operand of every operator, alone and together with others, and compares the results with the
// reference kernels. The operators run alone, between convolutions over signals, images and volumes, and in the chains
// that passes look for.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>

#include "base/text.h"
#include "graph/values.h"
#include "guarded_run.h"
#include "ops/support/builder.h"
#include "ops/support/evaluate.h"

namespace kilter {
namespace {

constexpr Tolerance kTolerance{.rtol = 1e-4, .atol = 1e-5};

/// Optional operands that every test case of their operator needs, each with the reason.
const std::map<std::string_view, std::string_view> kNeeded = {
    {"LinearAttention@27 4", "the update rule says whether there is a decay"},
    {"LinearAttention@27 5", "the update rule says whether there is a beta"},
    {"Pad@2 1", "an attribute before opset 11, and required from there on"},
    {"Pad@2 3", "without axes, pads must cover all dimensions, as in another case"},
    {"Resize@10 3", "either sizes or scales must be given"},
    {"RotaryEmbedding@23 3", "without positions, the caches have one more dimension, as in another case"},
    {"Slice@1 1", "an attribute before opset 10, and required from there on"},
    {"Slice@1 2", "an attribute before opset 10, and required from there on"},
    {"TopK@1 1", "an attribute before opset 10, and required from there on"},
    {"Unsqueeze@1 1", "an attribute before opset 13, and required from there on"},
    {"Upsample@7 1", "an attribute before opset 9, and required from there on"},
};

/// Cases in addition to OpDef::cases, for data of rank 3 to 5. X stands for the shape of the data, L for its last
/// extent, C for its channels, RANK for its rank, PADS for twice its rank, and ONES (or Z1) and TWOS for a list with
/// one 1 or 2 for each spatial dimension.
struct RankedCase {
  std::string_view op;
  std::string_view text;
};
constexpr RankedCase kRanked[] = {
    {"Slice", "f32[X] i64[2]=0,1 i64[2]=1,3 i64[2]=0,1 i64[2]=1,1"},
    {"Slice", "f32[X] i64[1]=0 i64[1]=1 i64[1]=1 i64[1]=1"},
    {"Slice", "f32[X] i64[1]=-1 i64[1]=-100 i64[1]=2 i64[1]=-1"},
    {"Slice", "f32[X] i64[1]=0 i64[1]=3 i64[1]=-1 i64[1]=2"},
    {"Pad", "f32[X] i64[2]=1,2 f32[]=0 i64[1]=2"},
    {"Pad", "f32[X] i64[PADS]=0,0,Z1,0,0,Z1 f32[]=0"},
    {"Pad", "f32[X] i64[PADS]=0,0,Z1,0,0,Z1 f32[]=-1"},
    {"Clip", "f32[X] f32[]=0 f32[]=6"},
    {"Split", "f32[X] i64[2]=1,3 | axis=1 | 13 | 2"},
    {"Split", "f32[X] i64[2]=2,2 | axis=1 | 13 | 2"},
    {"Squeeze", "f32[X] i64[1]=0"},
    {"ReduceMean", "f32[X] i64[1]=-1"},
    {"ReduceSum", "f32[X] i64[1]=2"},
    {"ReduceMax", "f32[X] i64[1]=1 | keepdims=0"},
    {"Resize",
     "f32[X] ? f32[RANK]=1,1,TWOS | mode=nearest nearest_mode=floor coordinate_transformation_mode=asymmetric"},
    {"Dropout", "f32[X] f32[]=0.5 bool[]=false"},
    {"LayerNormalization", "f32[X] f32[L] f32[L]"},
    {"Conv", "f32[X] f32[8,C,ONES] f32[8]"},
    {"ConvTranspose", "f32[X] f32[C,3,ONES] f32[3]"},
    {"Trilu", "f32[X] i64[]=1"},
    {"QuantizeLinear", "f32[X] f32[]=0.1 u8[]=7"},
    {"LpNormalization", "f32[X]"},
};

std::string for_shape(std::string_view text, const Shape& shape) {
  const size_t spatial = shape.size() - 2;
  const auto repeated = [&](std::string_view item) {
    std::string out;
    for (size_t d = 0; d < spatial; ++d) out += fmt::format("{}{}", d == 0 ? "" : ",", item);
    return out;
  };
  std::string out(text);
  const auto put = [&](std::string_view name, const std::string& value) {
    for (size_t at = out.find(name); at != std::string::npos; at = out.find(name, at + value.size()))
      out.replace(at, name.size(), value);
  };
  put("PADS", std::to_string(2 * shape.size()));
  put("RANK", std::to_string(shape.size()));
  put("TWOS", repeated("2"));
  put("ONES", repeated("1"));
  put("Z1", repeated("1"));
  put("[X]", fmt::format("[{}]", fmt::join(shape, ",")));
  put("[L]", fmt::format("[{}]", shape.back()));
  put("C,", fmt::format("{},", shape[1]));
  return out;
}

bool data_of_images(const Graph& graph, ValueId v) {
  const TensorType& t = graph.type(v);
  return t.dtype == DType::f32 && t.shape.size() >= 3 && t.shape.size() <= 5 && elems(t.shape) > 0;
}

/// Whether the data of a case are images, signals or volumes, so that convolutions may precede it.
bool has_images(const ParsedCase& c) {
  if (c.operands.empty() || c.operands[0].kind == CaseOperand::Kind::absent) return false;
  const Tensor& data = c.operands[0].tensor;
  return data.dtype() == DType::f32 && data.rank() >= 3 && data.rank() <= 5;
}

/// A 1x1 convolution that keeps the shape.
ValueId conv(GraphBuilder& b, ValueId x) {
  const Shape& shape = b.type(x).shape;
  Shape w(shape.size(), 1);
  w[0] = w[1] = shape[1];
  Tensor filters(DType::f32, w);
  for (int64_t i = 0; i < filters.elems(); ++i) filters.data<float>()[i] = 0.25F - 0.0625F * static_cast<float>(i % 5);
  return b.add("Conv", {x, b.constant(filters)});
}

ValueId factor(GraphBuilder& b, ValueId x, double value) {
  return b.add("Mul", {x, b.constant(Tensor::scalar(static_cast<float>(value)))});
}

enum class Place : uint8_t { alone, between_convolutions, in_a_chain };

/// A graph with the operator in one of these places, and its inputs.
struct TaskGraph {
  Graph graph;
  std::vector<Tensor> inputs;
};
TaskGraph placed(const OpDef& op, const ParsedCase& c, Place place) {
  TaskGraph out;
  GraphBuilder b(out.graph);
  std::vector<ValueId> operands;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    const CaseOperand& o = c.operands[i];
    if (o.kind == CaseOperand::Kind::absent) {
      operands.push_back(kNone);
    } else if (o.kind == CaseOperand::Kind::constant) {
      operands.push_back(b.constant(o.tensor));
    } else {
      operands.push_back(b.input(fmt::format("in{}", i), o.tensor.dtype(), o.tensor.shape()));
      out.inputs.push_back(o.tensor);
    }
  }
  const bool data = !operands.empty() && operands[0] != kNone && constant_of(out.graph, operands[0]) == nullptr;
  if (place != Place::alone && data && data_of_images(out.graph, operands[0])) {
    operands[0] = conv(b, operands[0]);
    if (place == Place::in_a_chain) operands[0] = b.add("Relu", {factor(b, operands[0], 0.5)});
  }
  GraphBuilder::Options options;
  options.domain = std::string(op.domain);
  options.opset = c.opset;
  options.output_count = c.outputs;
  const std::vector<ValueId> made = b.add(op.name, operands, c.attrs, options);
  for (size_t i = 0; i < made.size(); ++i) {
    out.graph.add_output(made[i], fmt::format("out{}", i));
    if (place == Place::alone || !data_of_images(out.graph, made[i])) continue;
    ValueId y = made[i];
    if (place == Place::in_a_chain) y = factor(b, b.add("Sigmoid", {y}), 2);
    out.graph.add_output(conv(b, y), fmt::format("behind{}", i));
  }
  return out;
}

/// Whether the operator has optional operands. Those of variadic operators do not count, nor do operators that only
/// programs run.
bool has_optional(const OpDef& op) {
  const bool only_in_programs = op.run != nullptr || op.control != Control::none;
  return op.domain.empty() && op.max_inputs > op.min_inputs && !only_in_programs;
}

bool draws(const Graph& graph) {
  return std::ranges::any_of(graph.order(), [&](NodeId id) { return !graph.node(id).op->deterministic; });
}

struct Case {
  const OpDef* op;
  std::string text;
  ParsedCase parsed;
};
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  const auto add = [&](const OpDef& op, const std::string& text) {
    Case c{&op, text, parse_case(op, text)};
    cases.push_back(c);
    const auto& all = c.parsed.operands;
    const auto is_random = [](const CaseOperand& o) { return o.kind == CaseOperand::Kind::random; };
    if (all.empty() || std::none_of(all.begin() + 1, all.end(), is_random)) return;
    c.parsed = with_weights(c.parsed);
    cases.push_back(std::move(c));
  };
  for (const OpDef* op : all_ops()) {
    if (!has_optional(*op)) continue;
    for (const CaseText text : op->cases) add(*op, std::string(text));
    for (const RankedCase& ranked : kRanked) {
      if (ranked.op != op->name || op->until != std::numeric_limits<int32_t>::max()) continue;
      for (const Shape& shape : {Shape{1, 4, 6}, Shape{1, 4, 3, 6}, Shape{1, 4, 3, 2, 6}})
        add(*op, for_shape(ranked.text, shape));
    }
  }
  return cases;
}

/// The case without one, two or all of its optional operands.
std::vector<ParsedCase> without_some(const OpDef& op, const ParsedCase& c) {
  std::vector<size_t> optional;
  for (auto i = static_cast<size_t>(op.min_inputs); i < c.operands.size(); ++i) {
    if (c.operands[i].kind != CaseOperand::Kind::absent) optional.push_back(i);
  }
  std::vector<ParsedCase> all;
  for (uint32_t set = 1; set < 1U << optional.size(); ++set) {
    if (std::popcount(set) > 2 && set + 1 != 1U << optional.size()) continue;
    ParsedCase less = c;
    for (size_t k = 0; k < optional.size(); ++k) {
      if ((set >> k & 1) != 0) less.operands[optional[k]] = {};
    }
    all.push_back(std::move(less));
  }
  return all;
}

std::string left_out(const ParsedCase& c) {
  std::string which;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    if (c.operands[i].kind == CaseOperand::Kind::absent) which += fmt::format(" {}", i);
  }
  return which;
}

class OptionalOperands : public testing::Test {
 protected:
  /// Returns whether the operands fit together. If so, checks that the compiled result equals the reference, unless it
  /// is random.
  bool right(const OpDef& op, const ParsedCase& c, Place place) {
    TaskGraph p;
    try {
      p = placed(op, c, place);
    } catch (const Error& error) {
      EXPECT_NE(error.kind(), ErrorKind::internal) << error.message();
      return false;
    } catch (const ShapeNeedsValue&) {
      return false;
    }
    const std::vector<Tensor> want = evaluate(p.graph, p.inputs);
    try {
      Compiled compiled = compile_for(p.graph, targets_here().front());
      const std::string steps = steps_text(compiled.plan);
      const auto program = std::make_shared<const Program>(std::move(compiled.plan));
      if (!draws(p.graph)) {
        EXPECT_EQ(run_guarded(program, p.inputs, want, kTolerance, 0), "") << steps;
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.message();
    }
    return true;
  }
};

TEST_F(OptionalOperands, MayBeLeftOutInAnyContext) {
  std::map<std::string, bool> seen;  // by operator and operand: whether a case without it is legal
  for (const Case& c : all_cases()) {
    for (const ParsedCase& less : without_some(*c.op, c.parsed)) {
      for (const Place place : {Place::alone, Place::between_convolutions, Place::in_a_chain}) {
        if (place != Place::alone && !has_images(less)) continue;
        SCOPED_TRACE(
            fmt::format("{}: {}, left out{}, place {}", c.op->name, c.text, left_out(less), static_cast<int>(place)));
        const bool legal = right(*c.op, less, place);
        for (auto i = static_cast<size_t>(c.op->min_inputs); i < less.operands.size(); ++i)
          seen[fmt::format("{}@{} {}", c.op->name, c.op->since, i)] |=
              legal && less.operands[i].kind == CaseOperand::Kind::absent;
        if (!legal) break;
      }
    }
  }
  for (const OpDef* op : all_ops()) {
    for (int32_t i = op->min_inputs; has_optional(*op) && i < op->max_inputs; ++i) {
      const std::string key = fmt::format("{}@{} {}", op->name, op->since, i);
      const auto it = seen.find(key);
      EXPECT_TRUE((it != seen.end() && it->second) || kNeeded.contains(key)) << key << ": no case leaves it out";
    }
  }
}

}  // namespace
}  // namespace kilter
