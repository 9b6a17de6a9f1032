// For each case of each operator, checks that shapes are inferred, that the reference kernel runs, and that the
// operator's other forms (scalar expression, copy regions, expansion) give the same result.
#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <string>

#include "loop/eval.h"
#include "ops/op.h"
#include "ops/support/builder.h"
#include "ops/support/cases.h"
#include "ops/support/evaluate.h"
#include "ops/support/iterate.h"
#include "ops/support/scalar.h"

namespace kilter {
namespace {

constexpr Tolerance kExact{.rtol = 0, .atol = 0};

/// A case with the outputs of its reference kernel.
struct Answered {
  OpCase own;
  std::vector<Tensor> want;
  NodeId node = kNone;           ///< the operator's own node; kNone if it was expanded
  std::vector<Tensor> operands;  ///< those of `node`; undefined if left out
};

Answered answer(const OpDef& op, CaseText text) {
  Answered out;
  out.own = make_case(op, text);
  verify(out.own.graph);
  verify_types(out.own.graph);
  out.want = evaluate(out.own.graph, out.own.inputs);
  const Graph& graph = out.own.graph;
  for (NodeId id : graph.order()) {
    if (graph.node(id).op == &op) out.node = id;
  }
  if (out.node == kNone) return out;
  for (ValueId id : graph.node(out.node).inputs) {
    Tensor tensor;
    if (id != kNone && graph.value(id).constant) tensor = *graph.value(id).constant;
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      if (graph.inputs()[i] == id) tensor = out.own.inputs[i];
    }
    out.operands.push_back(tensor);
  }
  return out;
}

void check_types_and_repeat(const OpDef& op, const Answered& a) {
  ASSERT_FALSE(a.want.empty());
  const std::vector<Tensor> second = evaluate(a.own.graph, a.own.inputs);
  for (size_t i = 0; i < a.want.size(); ++i) {
    const TensorType type{a.want[i].dtype(), a.want[i].shape(), {}};
    EXPECT_EQ(text(type), text(a.own.graph.type(a.own.graph.outputs()[i].value)));
    EXPECT_TRUE(!op.deterministic || a.want[i].same(second[i])) << "a second run gives a different result";
  }
  std::map<std::string, Tensor> constants;
  for (ValueId id = 0; static_cast<size_t>(id) < a.own.graph.value_count(); ++id) {
    const Value& value = a.own.graph.value(id);
    if (!value.dead && value.constant) constants[value.name] = *value.constant;
  }
  const std::string printed = print(a.own.graph);
  EXPECT_EQ(print(parse_graph(printed, constants)), printed);
}

/// The reference rounds an f16 once; an expression or an expansion may round after every operation.
Tolerance tolerance_for(const OpDef& op, DType type) {
  if (type == DType::f16) return {.rtol = 4e-3, .atol = 2e-3};
  if (type == DType::bf16) return {.rtol = 3e-2, .atol = 2e-2};
  return op.tolerance;
}

void check_expansion(const OpDef& op, CaseText text, const Answered& a) {
  if (op.expand == nullptr || op.reference == nullptr) return;
  const OpCase expanded = make_case(op, text, true);
  verify(expanded.graph);
  const std::vector<Tensor> got = evaluate(expanded.graph, expanded.inputs);
  ASSERT_EQ(got.size(), a.want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(compare(got[i], a.want[i], tolerance_for(op, a.want[i].dtype())).value_or(""), "") << "by expansion";
  }
}

/// Runs the copies. Reports the first element that is not written exactly once.
Tensor run_regions(const std::vector<CopyRegion>& regions, const std::vector<Tensor>& inputs, const TensorType& type) {
  Tensor out(type.dtype, type.shape);
  Tensor filler(type.dtype, {});
  std::vector<int> writes(static_cast<size_t>(out.elems()), 0);
  for (const CopyRegion& r : regions) {
    const bool fills = r.input == kNone;
    const Shape in_strides = fills ? Shape(r.extent.size(), 0) : r.in_strides;
    if (fills) fill(filler, r.fill);
    const Tensor& in = fills ? filler : inputs.at(static_cast<size_t>(r.input));
    for_each_offset<2>(r.extent, {in_strides, r.out_strides},
                       [&](const std::array<int64_t, 2>& at) {
                         ASSERT_TRUE(at[1] >= 0 && at[1] < out.elems()) << "writes element " << at[1];
                         ASSERT_TRUE(at[0] >= 0 && at[0] < in.elems()) << "reads element " << at[0];
                         ++writes[static_cast<size_t>(at[1])];
                         copy_element(in, at[0], out, at[1]);
                       },
                       {fills ? 0 : r.in_offset, r.out_offset});
  }
  for (size_t i = 0; i < writes.size(); ++i) {
    EXPECT_EQ(writes[i], 1) << "element " << i << " is written " << writes[i] << " times";
    if (writes[i] != 1) break;
  }
  return out;
}

void check_regions(const OpDef& op, const Answered& a) {
  if (op.regions == nullptr) return;
  ASSERT_NE(a.node, kNone);
  const Graph& graph = a.own.graph;
  for (size_t i = 0; i < a.want.size(); ++i) {
    const auto regions = op.regions(view(graph, graph.node(a.node)), static_cast<int32_t>(i));
    if (!regions || a.want[i].dtype() == DType::string) continue;
    const Tensor got = run_regions(*regions, a.operands, graph.type(graph.outputs()[i].value));
    EXPECT_EQ(compare(got, a.want[i], kExact).value_or(""), "") << "by regions";
  }
}

/// Evaluates the operator's scalar expression at every element by the loop IR's constant folding. Returns an undefined
/// tensor if the operator has no expression for these operands.
Tensor run_scalar(const OpDef& op, const OpView& operands_view, const std::vector<Tensor>& inputs) {
  Tensor out(operands_view.outputs.at(0).dtype, operands_view.outputs.at(0).shape);
  std::vector<Shape> strides;
  for (const Tensor& in : inputs)
    strides.push_back(in.defined() ? broadcast_strides(in.shape(), out.shape()) : Shape{});
  int64_t at = 0;
  bool defined = true;
  for_each_index(out.shape(), [&](std::span<const int64_t> index) {
    std::vector<Expr> in;
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (!inputs[k].defined()) continue;
      const int64_t offset = offset_of(index, strides[k]) * size_bytes(inputs[k].dtype());
      in.push_back(eval::read_imm(loop_type(inputs[k].dtype()), inputs[k].raw() + offset));
    }
    const std::optional<Expr> result = op.scalar(operands_view, in);
    defined = defined && result.has_value();
    if (!defined) return;
    ASSERT_EQ(name(result->elem()), name(loop_type(out.dtype()))) << "the scalar form has another type than the output";
    ASSERT_TRUE((*result)->kind == ExprKind::int_imm || (*result)->kind == ExprKind::float_imm);
    eval::write_imm(**result, 1, out.raw() + at++ * size_bytes(out.dtype()));
  });
  return defined ? out : Tensor();
}

void check_scalar(const OpDef& op, const Answered& a) {
  if (op.scalar == nullptr) return;
  ASSERT_NE(a.node, kNone);
  const Tensor& want = a.want.at(0);
  for (const Tensor& operand : a.operands) {
    if (operand.defined() && operand.dtype() == DType::string) return;
  }
  const Tensor got = run_scalar(op, view(a.own.graph, a.own.graph.node(a.node)), a.operands);
  if (!got.defined()) return;
  EXPECT_EQ(compare(got, want, tolerance_for(op, want.dtype())).value_or(""), "") << "by the scalar form";
}

void check_zeros(const OpDef& op, const Answered& a) {
  if (!op.zero_preserving) return;
  for (ValueId id : a.own.graph.node(a.node).inputs) {
    if (id == kNone || a.own.graph.value(id).constant || a.own.graph.type(id).dtype == DType::string) return;
  }
  std::vector<Tensor> zeros;
  for (const Tensor& in : a.own.inputs) zeros.emplace_back(in.dtype(), in.shape());
  const Tensor out = evaluate(a.own.graph, zeros).at(0);
  for (int64_t i = 0; i < out.elems(); ++i) ASSERT_EQ(out.as_double(i), 0.0) << "of zeros";
}

void check_flops(const OpDef& op, const Answered& a) {
  if (op.flops == nullptr || a.node == kNone) return;
  EXPECT_GE(op.flops(view(a.own.graph, a.own.graph.node(a.node))), 0);
}

class Reference : public testing::TestWithParam<const OpDef*> {};

TEST_P(Reference, EveryFormOfEveryCaseAgrees) {
  const OpDef& op = *GetParam();
  for (CaseText text : op.cases) {
    SCOPED_TRACE(text);
    try {
      const Answered a = answer(op, text);
      check_types_and_repeat(op, a);
      check_expansion(op, text, a);
      check_regions(op, a);
      check_scalar(op, a);
      check_zeros(op, a);
      check_flops(op, a);
    } catch (const Error& error) {
      ADD_FAILURE() << error.message();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

std::string test_name(const testing::TestParamInfo<const OpDef*>& info) {
  const OpDef& op = *info.param;
  std::string out = fmt::format("{}{}{}_{}", op.domain, op.domain.empty() ? "" : "_", op.name, op.since);
  for (char& c : out) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Ops, Reference, testing::ValuesIn(all_ops().begin(), all_ops().end()), test_name);

}  // namespace
}  // namespace kilter
