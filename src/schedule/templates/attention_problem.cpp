#include "schedule/templates/attention_problem.h"

namespace kilter {
namespace {

AttentionOperand matrix_of(const Operand& o, const Shape& whole) {
  AttentionOperand m{o.value, Shape(whole.size(), 0), 0, 0, o.phys.offset};
  const Shape& own = o.type.shape;
  for (size_t i = 0; i < own.size(); ++i) {
    if (own[i] != 1) m.batch[whole.size() - own.size() + i] = o.phys.strides[i];
  }
  m.column = m.batch.back(), m.batch.pop_back();
  m.row = m.batch.back(), m.batch.pop_back();
  return m;
}

/// Pairs of bf16, if all three operands are stored as bf16 and the pairs of k are neighbours.
Multiplicands multiplicands_of(const Task& task, const AttentionOperand& k, const CpuLimits& limits) {
  const Node& node = task.node();
  const auto type = [&](size_t i) -> const TensorType& { return task.operand(node.inputs[i]).type; };
  const Multiplicands pairs = Multiplicands::of(type(1), type(1), DType::f32, limits);
  const bool all = type(0).layout.stored == DType::bf16 && type(2).layout.stored == DType::bf16 && k.column == 1;
  return pairs.group == 2 && all ? pairs : Multiplicands{};
}

}  // namespace

Result<AttentionProblem> attention_problem(const Task& task, const CpuLimits& limits) {
  const Node& node = task.node();
  if (node.op->family != Family::attention) return not_for("operator", "FusedAttention", node.op->name);
  if (!task.prologue.empty()) return Rejected{"prologue", "none", std::to_string(task.prologue.size()) + " nodes"};
  if (auto rejected = check_elementwise(task)) return *rejected;
  for (ValueId in : node.inputs) {
    if (in != kNone && task.operand(in).type.layout.block != 1)
      return Rejected{"layout of the operands", "plain", "blocked"};
  }
  const auto operand = [&](size_t i) -> const Operand& { return task.operand(node.inputs[i]); };
  const bool masked = node.input(3) != kNone;
  AttentionProblem h;
  h.overlap = task.open;
  h.shape = fused_attention_shape(node, operand(0).type.shape, operand(1).type.shape, operand(2).type.shape,
                                  masked ? &operand(3).type.shape : nullptr);
  h.rules = fused_attention_rules(node);
  const FusedAttentionShape& s = h.shape;
  if (elems(s.out()) == 0 || s.keys == 0 || s.size == 0) return Rejected{"elements", "1 or more", "0"};
  h.q = matrix_of(operand(0), s.with(s.queries, s.size));
  h.k = matrix_of(operand(1), s.with(s.keys, s.size));
  h.v = matrix_of(operand(2), s.with(s.keys, s.v_size));
  h.multiplicands = multiplicands_of(task, h.k, limits);
  if (masked) {
    h.mask = matrix_of(operand(3), s.scores());
    if (h.mask.row != 0) h.constant_mask = operand(3).constant;
  }
  return h;
}

AttentionHead parallel_heads(LoopBuilder& b, const AttentionProblem& heads) {
  AttentionHead head{{}, heads.q.offset, heads.k.offset, heads.v.offset, heads.mask.offset};
  for (size_t d = 0; d < heads.shape.batch.size(); ++d) {
    const Expr i = b.parallel("b" + std::to_string(d), heads.shape.batch[d]);
    head.batch.push_back(i);
    head.q = head.q + i * Expr(heads.q.batch[d]);
    head.k = head.k + i * Expr(heads.k.batch[d]);
    head.v = head.v + i * Expr(heads.v.batch[d]);
    if (heads.mask.value != kNone) head.mask = head.mask + i * Expr(heads.mask.batch[d]);
  }
  return head;
}

Expr value_lanes(const FusedAttentionShape& shape, const Expr& column, int32_t lanes) {
  if (shape.v_size % lanes == 0) return {};
  return first_lanes(max(Expr(0), Expr(shape.v_size) - column), lanes);
}

Expr inverse_of_sum(const FusedAttentionRules& rules, const Expr& sum) {
  const Expr zero = imm(DType::f32, 0, sum.lanes());
  Expr inverse = imm(DType::f32, 1, sum.lanes()) / sum;
  if (rules.empty_is_zero) inverse = select(binary(Op::eq, sum, zero), zero, inverse);
  if (rules.nan_is_zero) inverse = select(binary(Op::gt, sum, zero), inverse, zero);
  return inverse;
}

void finish_attention(Emitter& e, const FusedAttentionRules& rules, const std::vector<Expr>& batch, const Expr& query,
                      const Expr& column, const Expr& mask, const Expr& sums, const Expr& inverse) {
  const ValueId anchor = e.task().node().outputs[0];
  const Domain domain = domain_of(e.task().graph->type(anchor));
  Site site{batch, static_cast<int32_t>(domain.rank()) - 1, sums.lanes(), mask};
  site.index.push_back(query);
  site.index.push_back(column);
  Expr y = sums * inverse;
  if (rules.nan_is_zero) {
    const Expr zero = imm(DType::f32, 0, sums.lanes());
    y = select(binary(Op::eq, inverse, zero), zero, y);
  }
  e.epilogue({{anchor, e.b.let("y", y)}}, domain, site);
}

}  // namespace kilter
