// What the templates of attention know about a task, and the end of their kernels, which they share.
#pragma once

#include "ops/support/fused_attention.h"
#include "schedule/emit.h"
#include "schedule/model/register_tile.h"

namespace kilter {

/// An operand [batch..., rows, columns]: its strides, which are 0 along broadcast dimensions.
struct AttentionOperand {
  ValueId value = kNone;
  Shape batch;
  int64_t row = 0, column = 0, offset = 0;
};

struct AttentionProblem {
  FusedAttentionShape shape;
  FusedAttentionRules rules;
  AttentionOperand q, k, v, mask;         ///< mask.value == kNone: no mask
  const Tensor* constant_mask = nullptr;  ///< set for a constant mask of several rows
  Multiplicands multiplicands;            ///< pairs of bf16, or f32
  bool overlap = false;                   ///< the last tiles of queries and keys overlap the previous ones (Task::open)
};

Result<AttentionProblem> attention_problem(const Task& task, const CpuLimits& limits);

/// The place of one head: an index for each batch dimension, and where its matrices begin.
struct AttentionHead {
  std::vector<Expr> batch;
  Expr q, k, v, mask;
};
/// Declares a parallel dimension for each batch dimension.
AttentionHead parallel_heads(LoopBuilder& b, const AttentionProblem& heads);

/// The lanes of a vector of v from `column` on that exist; undefined if all do.
Expr value_lanes(const FusedAttentionShape& shape, const Expr& column, int32_t lanes);

/// The factor that turns sums of weighted values into results: 1 / `sum`, or 0 where the rules say so.
Expr inverse_of_sum(const FusedAttentionRules& rules, const Expr& sum);

/// Multiplies a vector of weighted sums by `inverse` (in all lanes), applies the epilogue and stores the results at
/// `batch`..., `query`, `column`.
void finish_attention(Emitter& e, const FusedAttentionRules& rules, const std::vector<Expr>& batch, const Expr& query,
                      const Expr& column, const Expr& mask, const Expr& sums, const Expr& inverse);

}  // namespace kilter
