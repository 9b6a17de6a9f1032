// Checks that every definition in the table of operators is complete.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "ops/op.h"
#include "ops/support/builder.h"
#include "ops/support/cases.h"

namespace kilter {
namespace {

constexpr int32_t kOpen = std::numeric_limits<int32_t>::max();

TEST(Table, IsSortedByDomainNameAndOpset) {
  ASSERT_GT(all_ops().size(), 2U);
  for (size_t i = 1; i < all_ops().size(); ++i) {
    const OpDef& a = *all_ops()[i - 1];
    const OpDef& b = *all_ops()[i];
    EXPECT_LT(std::tuple(a.domain, a.name, a.since), std::tuple(b.domain, b.name, b.since));
  }
}

TEST(Table, OpsetRangesOfOneNameDoNotOverlap) {
  for (size_t i = 0; i < all_ops().size(); ++i) {
    const OpDef& a = *all_ops()[i];
    EXPECT_GE(a.since, 1) << a.name;
    EXPECT_LE(a.since, a.until) << a.name;
    if (i == 0) continue;
    const OpDef& before = *all_ops()[i - 1];
    if (a.domain == before.domain && a.name == before.name) {
      EXPECT_LT(before.until, a.since) << a.name;
    }
  }
}

TEST(Table, FindsByDomainNameAndOpset) {
  const OpDef* add = find_op("", "Add", 7);
  ASSERT_NE(add, nullptr);
  EXPECT_EQ(add->name, "Add");
  EXPECT_EQ(find_op("ai.onnx", "Add", 7), add);
  EXPECT_EQ(find_op("", "Add", kNewestOpset), add);
  EXPECT_EQ(find_op("", "Add", 6)->until, 6);
  EXPECT_EQ(find_op("", "Where", 8), nullptr);
  EXPECT_EQ(find_op("kilter", "Add", 7), nullptr);
  EXPECT_EQ(find_op("", "Ad", 7), nullptr);
  EXPECT_EQ(find_op("", "", 7), nullptr);
}

TEST(Table, EveryDefinitionIsFoundByItsOwnKey) {
  for (const OpDef* op : all_ops()) {
    EXPECT_EQ(find_op(op->domain, op->name, op->since), op) << op->name;
    const int32_t last = op->until == kOpen ? op->since + 1000 : op->until;
    EXPECT_EQ(find_op(op->domain, op->name, last), op) << op->name;
  }
}

TEST(Table, EveryDefinitionIsComplete) {
  for (const OpDef* op : all_ops()) {
    SCOPED_TRACE(op->name);
    EXPECT_FALSE(op->summary.empty());
    const bool in_programs = op->run != nullptr || op->control != Control::none;
    EXPECT_EQ(in_programs, op->infer == nullptr && op->expand == nullptr);
    EXPECT_EQ(op->infer != nullptr, op->reference != nullptr)
        << "a shape rule without a kernel, or the other way round";
    EXPECT_GE(op->min_inputs, 0);
    EXPECT_TRUE(op->max_inputs == -1 || op->max_inputs >= op->min_inputs);
    EXPECT_GE(op->min_outputs, 1);
    EXPECT_TRUE(op->max_outputs == -1 || op->max_outputs >= op->min_outputs);
    EXPECT_GE(op->tolerance.rtol, 0);
    EXPECT_GE(op->tolerance.atol, 0);
    EXPECT_EQ(op->cases.empty(), in_programs);
    EXPECT_TRUE(op->domain.find("ai.onnx") == std::string_view::npos || op->domain.starts_with("ai.onnx."))
        << "the default domain is spelled \"\"";
  }
}

TEST(Table, HooksFitTheFamily) {
  for (const OpDef* op : all_ops()) {
    SCOPED_TRACE(op->name);
    EXPECT_NE(name(op->family), "?");
    EXPECT_TRUE(op->scalar == nullptr || op->family == Family::map);
    EXPECT_TRUE(op->family != Family::map || op->scalar != nullptr || op->expand != nullptr);
    EXPECT_TRUE(op->regions == nullptr || op->family == Family::movement);
    EXPECT_TRUE(op->family != Family::movement || op->regions != nullptr || op->expand != nullptr);
    EXPECT_TRUE(!op->zero_preserving || op->family == Family::map);
  }
}

TEST(Table, AttributesHaveKnownTypesAndOneNameEach) {
  const std::set<std::string_view> types = {"int", "float", "string", "ints", "floats", "strings", "tensor", "graph"};
  for (const OpDef* op : all_ops()) {
    std::set<std::string_view> names;
    for (const AttrSpec& spec : op->attrs) {
      EXPECT_TRUE(names.insert(spec.name).second) << op->name << ": " << spec.name << " is listed twice";
      EXPECT_EQ(types.count(spec.type), 1U) << op->name << ": " << spec.name << " has type " << spec.type;
    }
  }
}

/// Returns whether the node of a case can be added to a graph while the value of operand `unknown` is not known.
bool adds_without(const OpDef& op, const ParsedCase& parsed, size_t unknown) {
  Graph graph;
  GraphBuilder builder(graph);
  std::vector<ValueId> operands;
  for (size_t i = 0; i < parsed.operands.size(); ++i) {
    const Tensor& tensor = parsed.operands[i].tensor;
    if (!tensor.defined()) {
      operands.push_back(kNone);
    } else if (i == unknown) {
      operands.push_back(builder.input("in", tensor.dtype(), tensor.shape()));
    } else {
      operands.push_back(builder.constant(tensor));
    }
  }
  GraphBuilder::Options options;
  options.domain = op.domain;
  options.opset = parsed.opset;
  options.output_count = parsed.outputs;
  try {
    builder.add(op.name, operands, parsed.attrs, options);
    return true;
  } catch (const ShapeNeedsValue&) {
    return false;
  } catch (const Error&) {
    return false;
  }
}

TEST(Table, OperandsThatDetermineShapesAreDeclared) {
  for (const OpDef* op : all_ops()) {
    if (op->domain == "kilter") continue;  // programs do not contain them
    std::set<int32_t> needed;
    for (const CaseText text : op->cases) {
      const ParsedCase parsed = parse_case(*op, text);
      for (size_t i = 0; i < parsed.operands.size(); ++i) {
        if (parsed.operands[i].tensor.defined() && !adds_without(*op, parsed, i))
          needed.insert(static_cast<int32_t>(i));
      }
    }
    EXPECT_EQ(needed, std::set<int32_t>(op->shape_operands.begin(), op->shape_operands.end()))
        << op->domain << ":" << op->name << "@" << op->since;
  }
}

}  // namespace
}  // namespace kilter
