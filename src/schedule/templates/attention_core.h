// The nest behind attention_rows, whose head says what it computes.
#pragma once

#include "ops/support/fused_attention.h"
#include "schedule/emit.h"
#include "schedule/model/register_tile.h"

namespace kilter {

/// One operand [batch..., rows, columns]: strides, 0 along broadcast dimensions.
struct AttentionOperand {
  ValueId value = kNone;
  Shape batch;
  int64_t row = 0, column = 0, offset = 0;
};

struct AttentionProblem {
  FusedAttentionShape shape;
  FusedAttentionRules rules;
  AttentionOperand q, k, v, mask;         ///< mask.value == kNone: no mask
  const Tensor* constant_mask = nullptr;  ///< of more than one row
};

/// Emits the whole kernel: parallel over batch dimensions and blocks of queries. The schedule's knobs are legal.
void emit_attention(Emitter& e, const AttentionProblem& heads, const Schedule& schedule, int32_t lanes);

}  // namespace kilter
