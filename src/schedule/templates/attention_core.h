// The loop nest of the template attention_rows; see the head of attention_rows.cpp.
#pragma once

#include "ops/support/fused_attention.h"
#include "schedule/emit.h"
#include "schedule/model/register_tile.h"
#include "schedule/templates/tile_split.h"

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
  bool overlap = false;                   ///< the last tiles of queries and keys overlap those before (Task::open)
};

/// Emits the whole kernel, parallel over batch dimensions and blocks of queries. The schedule's knobs must be legal.
void emit_attention(Emitter& e, const AttentionProblem& heads, const Schedule& schedule, int32_t lanes);

}  // namespace kilter
