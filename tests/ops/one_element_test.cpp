// A parameter may be a scalar or a tensor with one element. Tests every case of every operator with each one-element
// operand as a scalar, a vector and a matrix.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "ops/support/cases.h"
#include "ops/support/evaluate.h"

namespace kilter {
namespace {

/// Operands, by operator, whose rank matters even if they have one element: data whose dimensions are used, and lists
/// with one element per filter, batch, box, update or slice.
const std::map<std::string_view, std::vector<size_t>> kRankCounts = {
    {"Compress", {1}},      {"Concat", {0, 1}}, {"Conv", {2}},      {"ConvTranspose", {2}},
    {"CropAndResize", {2}}, {"Det", {0}},       {"Inverse", {0}},   {"PRelu", {1}},
    {"Pad", {0}},           {"Shape", {0}},     {"ScatterND", {2}}, {"ReverseSequence", {1}},
    {"RoiAlign", {2}},      {"Squeeze", {0}},   {"Tile", {0}},      {"TensorScatter", {2}},
};

bool rank_counts(const OpDef& op, size_t i) {
  const auto it = kRankCounts.find(op.name);
  return it != kRankCounts.end() && std::ranges::find(it->second, i) != it->second.end();
}

/// Returns "" if both have the same elements in the same order. Shapes may differ, since some results have the shape of
/// an operand.
std::string difference(const Tensor& got, const Tensor& want, const Tolerance& tolerance) {
  if (got.dtype() != want.dtype() || got.elems() != want.elems()) {
    return fmt::format("expected {}[{}], got {}[{}]", name(want.dtype()), kilter::text(want.shape()), name(got.dtype()),
                       kilter::text(got.shape()));
  }
  return compare(got.reshaped(want.shape()), want, tolerance).value_or("");
}

class OneElement : public testing::TestWithParam<const OpDef*> {};

TEST_P(OneElement, MayHaveAnyNumberOfDimensions) {
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
          const auto want = evaluate(before.graph, before.inputs), got = evaluate(now.graph, now.inputs);
          for (size_t k = 0; k < want.size(); ++k) EXPECT_EQ(difference(got[k], want[k], {.rtol = 0, .atol = 0}), "");
          if (op.expand == nullptr) continue;
          const OpCase expanded = make_case(op, other, text, true);
          const auto whole = evaluate(expanded.graph, expanded.inputs);
          for (size_t k = 0; k < want.size(); ++k)
            EXPECT_EQ(difference(whole[k], want[k], op.tolerance), "") << "expanded";
        } catch (const Error& error) {
          ADD_FAILURE() << error.message();
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, OneElement, testing::ValuesIn(all_ops().begin(), all_ops().end()), [](const auto& setup) {
  std::string name = fmt::format("{}_{}_{}", setup.param->domain, setup.param->name, setup.param->since);
  std::ranges::replace_if(name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace kilter
