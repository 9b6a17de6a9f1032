// A scalar and a tensor of one element are one thing as a parameter: every case of every operator, with each operand of
// one element as a scalar, a vector and a matrix.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "ops/builder.h"
#include "ops/cases.h"
#include "ops/evaluate.h"

namespace kilter {
namespace {

/// Operands whose number of dimensions counts: data that the result takes its shape from, and lists that have a length.
/// By operator: the numbers of these operands.
const std::map<std::string_view, std::vector<size_t>> kRankCounts = {};

bool rank_counts(const OpDef& op, size_t i) {
  const auto it = kRankCounts.find(op.name);
  return it != kRankCounts.end() && std::ranges::find(it->second, i) != it->second.end();
}

std::vector<TensorType> types(const Graph& graph) {
  std::vector<TensorType> all;
  for (const Graph::Output& output : graph.outputs()) all.push_back(graph.type(output.value));
  return all;
}

class OneElement : public testing::TestWithParam<const OpDef*> {};

TEST_P(OneElement, MeansTheSameInAnyNumberOfDimensions) {
  const OpDef& op = *GetParam();
  for (const CaseText text : op.cases) {
    const ParsedCase parsed = parse_case(op, text);
    for (size_t i = 0; i < parsed.operands.size(); ++i) {
      const Tensor& tensor = parsed.operands[i].tensor;
      if (!tensor.defined() || tensor.elems() != 1 || rank_counts(op, i)) continue;
      for (const Shape& shape : {Shape{}, Shape{1}, Shape{1, 1}}) {
        SCOPED_TRACE(fmt::format("{}: {}, operand {} of shape [{}]", op.name, text, i, kilter::text(shape)));
        ParsedCase other = parsed;
        other.operands[i].tensor = tensor.reshaped(shape);
        try {
          const OpCase before = make_case(op, parsed, text), now = make_case(op, other, text);
          ASSERT_EQ(types(now.graph), types(before.graph));
          const auto want = evaluate(before.graph, before.inputs), got = evaluate(now.graph, now.inputs);
          for (size_t k = 0; k < want.size(); ++k)
            EXPECT_EQ(compare(got[k], want[k], {.rtol = 0, .atol = 0}).value_or(""), "");
          if (op.expand == nullptr) continue;
          const OpCase expanded = make_case(op, other, text, true);
          const auto whole = evaluate(expanded.graph, expanded.inputs);
          for (size_t k = 0; k < want.size(); ++k)
            EXPECT_EQ(compare(whole[k], want[k], op.tolerance).value_or(""), "") << "expanded";
        } catch (const Error& error) {
          ADD_FAILURE() << error.message();
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, OneElement, testing::ValuesIn(all_ops().begin(), all_ops().end()), [](const auto& info) {
  std::string name = fmt::format("{}_{}_{}", info.param->domain, info.param->name, info.param->since);
  std::ranges::replace_if(name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace kilter
